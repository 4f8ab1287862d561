#pragma once

#include <signal.h>

#include <cstddef>

#include "os/memory.h"
#include "penstock/base.h"

namespace penstock::os {

// A stack for the signal handlers of the calling thread, with an inaccessible page below it, in use
// for as long as the object lives. A thread needs one where its own stack may lie in memory that
// faults, or is too small for a handler.
//
// Thread safety: must be destroyed by the thread that made it; therefore neither copied nor moved.
class AltStack {
 public:
  static constexpr size_t bytes_default = size_t{64} << 10;

  // At least `bytes`, on top of what the processor's registers take in a signal frame.
  explicit AltStack(size_t bytes = bytes_default);
  ~AltStack();
  AltStack(const AltStack&) = delete;
  AltStack& operator=(const AltStack&) = delete;

  // Whether the stack is in use, and why not. Nothing else fails.
  const Status& status() const { return status_; }

 private:
  Reservation memory_;
  stack_t previous_ = {};
  Status status_;
};

}  // namespace penstock::os
