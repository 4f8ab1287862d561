#pragma once

#include <cstdint>
#include <utility>

#include "os/fd.h"
#include "penstock/base.h"

namespace penstock::os {

// Waits for the end of a running process, in a thread of its own. Thread safety: a move-only value.
class ProcessEnd {
 public:
  // Binds to the process that has the number at the moment: a child keeps its number until somebody
  // waits for it. Errors: not_found.
  static Result<ProcessEnd> of(int32_t pid);

  // Returns when the process has ended, whether or not its parent has waited for it. Blocks all
  // signals in the calling thread for good, so that no handler of the program runs in it.
  void wait() const noexcept;

 private:
  explicit ProcessEnd(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace penstock::os
