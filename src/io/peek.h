#pragma once

// A look at the first and the last bytes of an input, which stay in it for whoever reads it later.

#include <atomic>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include "penstock/base.h"

namespace penstock::io {

struct Peek {
  std::string bytes;     // the first ones
  std::string tail;      // the last ones of a file
  bool is_all = false;   // the input has no more bytes than the first ones
  bool is_file = false;  // otherwise a pipe, where the time decides how many bytes are seen
};

// The time of the look at a pipe: now; when it has a byte or has ended; when PeekOptions::enough
// holds, or the pipe has ended or is full, or nothing has come for ten seconds.
enum class Wait { none, byte, enough };

struct PeekOptions {
  size_t bytes_max = 4096;  // at most 1 MiB of a pipe
  size_t tail_bytes = 0;
  Wait wait = Wait::none;
  // Returns whether fewer bytes suffice. Without it, a file is read as far as is allowed.
  std::function<bool(const Peek&)> enough = {};
  const std::atomic<bool>* cancel = nullptr;  // if set, an empty pipe is no longer waited for
};

// Looks at a file, a pipe or a socket; "-" is standard input, from its current position. Returns
// nullopt for inputs that can be read only once: named pipes, devices. Errors: as of opening the
// file.
Result<std::optional<Peek>> peek(const std::string& path, const PeekOptions& options = {});

// Returns what can be seen: nothing of an input that cannot be looked at or opened.
Peek peek_if_possible(const std::string& path, const PeekOptions& options = {});

}  // namespace penstock::io
