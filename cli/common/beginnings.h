#pragma once

// The beginnings of inputs, for decisions and notices before a run. Each input is opened once.

#include <atomic>
#include <cstddef>
#include <map>
#include <string>

#include "io/peek.h"
#include "items/format.h"
#include "penstock/files.h"

namespace penstock::cli {

// The number of inputs that are looked at before a run.
inline constexpr size_t seen_inputs_max = 16;

struct Beginning {
  io::Peek head;            // the first 4 KiB as they are stored, and the end of a file
  std::string text;         // decompressed: 256 KiB, or more if the first row is longer
  bool is_all = false;      // the input ends there
  bool is_damaged = false;  // compressed data that were cut off, or have errors
  bool can_open = true;
  bool is_read_once = false;  // a named pipe or a device, which is not looked at

  bool is_empty() const { return is_all && text.empty(); }
  bool has_row(const items::Dialect& dialect = {}) const;
  // The text, whose last row has an end if the input ends there.
  std::string rows(char line_end) const;
};

// Thread safety: one thread.
class Beginnings {
 public:
  // Looks at an input, unless that is done, and consumes nothing. Pipes are waited for as `wait`
  // says: until the first row ends, if it is `enough`. Without `cancel`, a signal ends the program
  // meanwhile, with its message. The reference is valid until clear().
  const Beginning& of(const std::string& input, const SourceOptions& source,
                      io::Wait wait = io::Wait::none, const std::atomic<bool>* cancel = nullptr);
  // Frees the memory.
  void clear() { kept_.clear(); }

 private:
  struct Kept {
    io::Wait wait;
    Beginning beginning;
  };
  std::map<std::string, Kept> kept_;
};

}  // namespace penstock::cli
