#pragma once

#include <cstdint>
#include <utility>

#include "os/fd.h"
#include "penstock/base.h"

namespace penstock::os {

// The end of a process that runs now, for a thread that has nothing else to do. Thread safety: a
// move-only value.
class ProcessEnd {
 public:
  // The process that has the number at the moment: a child that nobody has waited for keeps its
  // own. Errors: not_found.
  static Result<ProcessEnd> of(int32_t pid);

  // Returns when the process has ended, whether or not its parent has asked. Blocks all signals in
  // the calling thread, for good: no handler of the program's runs in it.
  void wait() const noexcept;

 private:
  explicit ProcessEnd(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace penstock::os
