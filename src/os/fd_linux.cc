#include <unistd.h>

#include "base/keep_errno.h"
#include "os/fd.h"

namespace penstock::os {

void Fd::reset(int number) noexcept {
  const int before = std::exchange(number_, number);
  if (before < 0) return;
  const KeepErrno keep;
  close(before);
}

}  // namespace penstock::os
