#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

#include "base/keep_errno.h"
#include "os/futex.h"

namespace penstock::os {
namespace {

void futex(const std::atomic<uint32_t>& word, int operation, uint32_t value,
           const timespec* timeout = nullptr) noexcept {
  static_assert(sizeof word == sizeof(uint32_t));
  const KeepErrno keep;
  syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

}  // namespace

void futex_wait(const std::atomic<uint32_t>& word, uint32_t expected) noexcept {
  futex(word, FUTEX_WAIT_PRIVATE, expected);
}

void futex_wake_all(const std::atomic<uint32_t>& word) noexcept {
  futex(word, FUTEX_WAKE_PRIVATE, INT_MAX);
}

void futex_wait_shared(const std::atomic<uint32_t>& word, uint32_t expected,
                       uint32_t wait_ms_max) noexcept {
  const timespec timeout = {.tv_sec = wait_ms_max / 1000,
                            .tv_nsec = long{wait_ms_max % 1000} * 1'000'000};
  futex(word, FUTEX_WAIT, expected, &timeout);
}

void futex_wake_all_shared(const std::atomic<uint32_t>& word) noexcept {
  futex(word, FUTEX_WAKE, INT_MAX);
}

}  // namespace penstock::os
