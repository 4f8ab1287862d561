#pragma once

// Which system calls in a piece of code can be taken over, and what goes with each. Nothing is
// changed here, and nothing asked of the system: sites_linux.cc does that, and says why.

#include <cstddef>
#include <cstdint>

#include "trace/preload/functions.h"

namespace penstock::trace::preload {

inline constexpr size_t sites_at_once = 1024;

// Code of a file as it lies in memory: at address `begin`. `bytes` is what the file has.
struct Code {
  const uint8_t* bytes;
  uint64_t begin;
  uint64_t size;
  Functions functions;
};

// As offsets into the code: begin <= call < call + 2 <= back.
struct Site {
  uint64_t begin;     // of what is replaced
  uint64_t call;      // the syscall
  uint64_t back;      // where the program goes on
  bool needs_search;  // for jumps from other functions
};

// Where calls are, from `from` on: as many as there is room for (`sites_at_once`). Moves `from` to
// where the next ones are.
size_t find_sites(const Code& code, uint64_t& from, Site* sites);

}  // namespace penstock::trace::preload
