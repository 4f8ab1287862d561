#pragma once

// Fault injection for tests: disturbs the results of src/io's system calls, from a seed.
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
  // The number (1-based) of the read, among reads of files with checks, that returns a flipped
  // bit; 0: none.
  uint64_t flip = 0;
  // The number (1-based) of the bucket, among a sort's buckets in memory, that gets a flipped bit
  // before it is sorted; 0: none.
  uint64_t forget = 0;

  // "seed=7,short=0.2,delay=0.1:500,error=ENOSPC@write:100,flip=3,forget=2" (read, write,
  // sync, close, rename): the form of PENSTOCK_INJECT.
  static Result<Injection> parse(const std::string& text);
  bool operator==(const Injection&) const = default;
};

// Sets the injection of the process, at first none. Injection{} is none.
void inject(const Injection& injection);
Injection injected();

}  // namespace penstock::io
