#include "os/semaphore.h"

#include "os/futex.h"

namespace penstock::os {

bool Semaphore::try_acquire(uint32_t n) noexcept {
  uint32_t value = value_.load(std::memory_order_relaxed);
  while ((value >> 1) >= n) {
    // acquire: shows everything that was done before the release() of these units.
    if (value_.compare_exchange_weak(value, value - (n << 1), std::memory_order_acquire,
                                     std::memory_order_relaxed))
      return true;
  }
  return false;
}

bool Semaphore::spin(uint32_t n) noexcept {
  // About two microseconds: less than the pair of system calls for sleeping and waking.
  for (int i = 0; i < 50; ++i) {
    if (try_acquire(n)) return true;
    if (closed()) return false;
    spin_pause();
  }
  return false;
}

bool Semaphore::acquire(uint32_t n) noexcept {
  if (spin(n)) return true;
  // seq_cst, pairs with wake(): the waker sees this waiter, or the futex call sees the new value.
  waiters_.fetch_add(1, std::memory_order_seq_cst);
  bool acquired = false;
  while (true) {
    const uint32_t value = value_.load(std::memory_order_seq_cst);
    if ((acquired = try_acquire(n)) || (value & 1) != 0) break;
    if ((value >> 1) < n) futex_wait(value_, value);
  }
  waiters_.fetch_sub(1, std::memory_order_relaxed);
  return acquired;
}

void Semaphore::wake() noexcept {
  if (waiters_.load(std::memory_order_seq_cst) != 0) futex_wake_all(value_);
}

void Semaphore::release(uint32_t n) noexcept {
  value_.fetch_add(n << 1, std::memory_order_seq_cst);
  wake();
}

void Semaphore::close() noexcept {
  value_.fetch_or(1, std::memory_order_seq_cst);
  wake();
}

}  // namespace penstock::os
