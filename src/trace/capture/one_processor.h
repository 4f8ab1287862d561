#pragma once

// A traced thread and its tracer take turns: one waits whenever the other runs. On two processors
// each turn wakes a sleeping processor, because the scheduler prefers an idle processor to a busy
// one. On one processor a turn is a context switch. So a thread that makes many calls in quick
// succession is kept on the tracer's processor until it makes none for a while: a thread that
// computes may be better elsewhere.
//
// The program must not notice. The calls of `let_go_before()` could show the changed affinity, pass
// it on, or depend on it: the thread is let go before each of them. Files of /proc show it, too
// (libnuma reads them): the thread is let go when it opens one, and not kept again before many more
// calls. Remaining gaps: such a file that was opened long before; other processes that look at the
// thread; a cpuset that grows meanwhile. If another process moves the thread meanwhile (taskset -p),
// that choice stays.
//
// A kept thread shares our processor and has to give way to us: real-time threads are not kept.

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>

#include "base/mutex.h"

namespace penstock::trace {

// Thread safety: one thread, the tracer's own. A watching thread lets go of a calm thread.
// Invariants: while no thread is kept, threads and tracer have their original affinity.
class OneProcessor {
 public:
  // A thread is kept after `calls_min` calls without another thread's between, each at most
  // `pause_ns_max` after the previous one.
  static constexpr uint32_t calls_min = 64;
  static constexpr uint64_t pause_ns_max = 1'000'000;

  // `calm`: a thread without calls for this time is let go.
  explicit OneProcessor(std::chrono::milliseconds calm = std::chrono::milliseconds(10));
  ~OneProcessor();  // lets the thread go
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;

  // Reports a call of a thread, which is stopped. Changes nothing if there is no processor for both,
  // or no right to choose one.
  void called(int32_t thread, uint64_t now_ns) EXCLUDES_LOCK(mutex_);
  // Restores the kept thread's affinity, and counts calls from 0 again.
  void let_go() EXCLUDES_LOCK(mutex_);
  // Reports the end of a thread. Another thread may have its number by now.
  void ended(int32_t thread) EXCLUDES_LOCK(mutex_);
  // Reports a new thread, which may have inherited the affinity of a kept one.
  void made(int32_t thread) EXCLUDES_LOCK(mutex_);
  bool keeps(int32_t thread) EXCLUDES_LOCK(mutex_);

  // Returns the numbers of the system calls before which the thread is let go.
  static std::span<const uint32_t> let_go_before();

 private:
  struct Places;

  void keep(int32_t thread) REQUIRES_LOCK(mutex_);
  void restore(bool thread_is_there) REQUIRES_LOCK(mutex_);
  void watch() EXCLUDES_LOCK(mutex_);

  const int32_t tracer_;
  const std::chrono::milliseconds calm_;
  Mutex mutex_;
  Condition changed_;
  std::unique_ptr<Places> places_ GUARDED_BY(mutex_);
  int32_t thread_ GUARDED_BY(mutex_) = 0;  // the kept thread; 0: none
  int32_t caller_ GUARDED_BY(mutex_) = 0;
  uint32_t calls_ GUARDED_BY(mutex_) = 0;  // successive calls of caller_
  uint64_t called_ns_ GUARDED_BY(mutex_) = 0;
  bool called_since_ GUARDED_BY(mutex_) = false;  // a call came since the watcher's last look
  bool ends_ GUARDED_BY(mutex_) = false;
  std::jthread watcher_;
};

}  // namespace penstock::trace
