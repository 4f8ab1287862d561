#pragma once

// Faults for tests: what the system calls of src/io answer is disturbed, from a seed.
//
// Thread safety: inject() while no engine is open; everything else from any thread.

#include <cstdint>
#include <string>

#include "io/engine.h"
#include "penstock/base.h"

namespace penstock::io {

struct Injection {
  uint64_t seed = 0;
  double short_transfer = 0;  // probability that a request is served in part
  double delay = 0;           // probability of a delay of up to delay_us_max
  uint32_t delay_us_max = 0;
  // The errno (EIO, ENOSPC) of every system call after error_after calls of that operation.
  int error = 0;
  uint64_t error_after = ~0ull;
  Operation error_operation = Operation::read;
  // Of the reads of files that keep checks, the one of this number (from 1) comes back with a bit
  // flipped.
  uint64_t flip = 0;
  // Of the buckets of a sort that lie in memory, the one of this number (from 1) has a bit flipped
  // before it is sorted.
  uint64_t forget = 0;

  // "seed=7,short=0.2,delay=0.1:500,error=ENOSPC@write:100,flip=3,forget=2" (read, write, sync,
  // close, rename): what PENSTOCK_INJECT holds.
  static Result<Injection> parse(const std::string& text);
  bool operator==(const Injection&) const = default;
};

// Process-wide, and none at the start. Injection{} is none.
void inject(const Injection& injection);
Injection injected();

}  // namespace penstock::io
