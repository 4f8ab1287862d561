#pragma once

#include <atomic>
#include <cstdint>

namespace penstock::os {

// A counting semaphore that may stand on the fault path: it neither allocates nor locks, and keeps
// errno. A waiter spins for a few microseconds and then sleeps in the kernel.
//
// close() cancels or ends a stream: every present and future waiter returns `false`. Units that
// were released before can still be acquired after close(), so that none is lost.
//
// Thread safety: all members, from any thread; destruction when nobody is inside any more.
// Invariant: value_ = 2 * count + closed. Waiters for several units have no precedence over waiters
// for one.
class Semaphore {
 public:
  static constexpr uint32_t count_max = (uint32_t{1} << 31) - 1;

  explicit Semaphore(uint32_t count = 0) noexcept : value_(count << 1) {}
  Semaphore(const Semaphore&) = delete;
  Semaphore& operator=(const Semaphore&) = delete;

  // Acquires `n` units, and waits for them; false if the semaphore is closed and has too few.
  [[nodiscard]] bool acquire(uint32_t n = 1) noexcept;
  [[nodiscard]] bool try_acquire(uint32_t n = 1) noexcept;
  // REQUIRES: the count stays at or under count_max.
  void release(uint32_t n = 1) noexcept;
  void close() noexcept;

  bool closed() const noexcept { return (value_.load(std::memory_order_acquire) & 1) != 0; }
  uint32_t count() const noexcept { return value_.load(std::memory_order_acquire) >> 1; }

 private:
  bool spin(uint32_t n) noexcept;
  void wake() noexcept;

  std::atomic<uint32_t> value_;
  std::atomic<uint32_t> waiters_{0};
};

// Holds the only unit of a semaphore that serves as a mutex on the fault path; nothing for nullptr.
// REQUIRES: nobody closes it.
class SemaphoreLock {
 public:
  explicit SemaphoreLock(Semaphore& mutex) noexcept : SemaphoreLock(&mutex) {}
  explicit SemaphoreLock(Semaphore* mutex) noexcept : mutex_(mutex) {
    if (mutex_ != nullptr) (void)mutex_->acquire();
  }
  ~SemaphoreLock() {
    if (mutex_ != nullptr) mutex_->release();
  }
  SemaphoreLock(const SemaphoreLock&) = delete;
  SemaphoreLock& operator=(const SemaphoreLock&) = delete;

 private:
  Semaphore* const mutex_;
};

}  // namespace penstock::os
