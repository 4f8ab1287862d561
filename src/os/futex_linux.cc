#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "os/futex.h"

namespace penstock::os {
namespace {

void futex(const std::atomic<uint32_t>& word, int operation, uint32_t value) noexcept {
  static_assert(sizeof word == sizeof(uint32_t));
  const int saved_errno = errno;
  syscall(SYS_futex, &word, operation, value, nullptr, nullptr, 0);
  errno = saved_errno;
}

}  // namespace

void futex_wait(const std::atomic<uint32_t>& word, uint32_t expected) noexcept {
  futex(word, FUTEX_WAIT_PRIVATE, expected);
}

void futex_wake_all(const std::atomic<uint32_t>& word) noexcept {
  futex(word, FUTEX_WAKE_PRIVATE, INT_MAX);
}

}  // namespace penstock::os
