#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

// std::mutex with annotations for clang's -Wthread-safety; other compilers ignore them.
#if defined(__clang__)
#define PENSTOCK_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define PENSTOCK_THREAD_ANNOTATION(x)
#endif
#define GUARDED_BY(m) PENSTOCK_THREAD_ANNOTATION(guarded_by(m))
#define REQUIRES_LOCK(...) PENSTOCK_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define EXCLUDES_LOCK(...) PENSTOCK_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))

namespace penstock {

class PENSTOCK_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  // Spins for about a microsecond first: locks are mostly held for less, and putting a thread to
  // sleep and waking it costs some ten times that.
  void lock() PENSTOCK_THREAD_ANNOTATION(acquire_capability()) {
    for (int turn = 0; turn < spins_max; ++turn) {
      if (mutex_.try_lock()) return;
      pause();
    }
    mutex_.lock();
  }
  void unlock() PENSTOCK_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }

 private:
  static constexpr int spins_max = 32;
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  std::mutex mutex_;
};

class PENSTOCK_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) PENSTOCK_THREAD_ANNOTATION(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() PENSTOCK_THREAD_ANNOTATION(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// A condition variable for a Mutex that the caller holds.
class Condition {
 public:
  void wait(Mutex& mutex) REQUIRES_LOCK(mutex) { condition_.wait(mutex); }
  // Also returns after `time`.
  void wait_for(Mutex& mutex, std::chrono::nanoseconds time) REQUIRES_LOCK(mutex) {
    condition_.wait_for(mutex, time);
  }
  void notify_all() { condition_.notify_all(); }
  void notify_one() { condition_.notify_one(); }

 private:
  std::condition_variable_any condition_;
};

}  // namespace penstock
