#pragma once

// A traced thread and its tracer take turns: one waits whenever the other runs. On two processors
// each turn wakes a processor that has gone to sleep, and the scheduler, to which an idle processor
// looks better than a busy one, brings that about each time anew. On one processor a turn is a
// switch. So a thread that makes many calls, one soon after the other, is kept on the tracer's
// processor until it makes none for a while: one that computes may be wanted elsewhere.
//
// The program shall not notice. What could show it, hand it on, or depend on it, is asked of the
// kernel by the calls of `let_go_before()`: they find things as they were. A file of /proc tells,
// too (libnuma looks there): it is let go when one is opened, and not kept again before it has made
// many more calls. What is left: such a file that was opened long before; others who look at the
// thread from outside; a cpuset that grows meanwhile. If somebody moves the thread meanwhile
// (taskset -p), that stands.
//
// Whoever is kept computes beside us, so he has to give way to us: real-time threads are not kept.

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <thread>

#include "base/mutex.h"

namespace penstock::trace {

// Thread safety: one thread, the tracer's own. One of ours watches that nobody is kept in vain.
// Invariants: while no thread is kept, it and the tracer may run where they could before.
class OneProcessor {
 public:
  // How many calls of one thread, without another's between, and how soon each after the one
  // before.
  static constexpr uint32_t calls_min = 64;
  static constexpr uint64_t pause_ns_max = 1'000'000;

  // `calm`: without a call for so long nobody is kept.
  explicit OneProcessor(std::chrono::milliseconds calm = std::chrono::milliseconds(10));
  ~OneProcessor();  // lets go
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;

  // A thread makes a call, and is stopped. Where there is no processor for both, or no right to
  // choose, nothing is changed.
  void called(int32_t thread, uint64_t now_ns) EXCLUDES_LOCK(mutex_);
  // And counts calls from 0 again.
  void let_go() EXCLUDES_LOCK(mutex_);
  // A thread has ended. Its number may be another's by now.
  void ended(int32_t thread) EXCLUDES_LOCK(mutex_);
  // A thread was made: perhaps by one that is kept, in a way that we did not see.
  void made(int32_t thread) EXCLUDES_LOCK(mutex_);
  bool keeps(int32_t thread) EXCLUDES_LOCK(mutex_);

  // Numbers of system calls.
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
  int32_t thread_ GUARDED_BY(mutex_) = 0;  // that is kept; 0: none
  int32_t caller_ GUARDED_BY(mutex_) = 0;
  uint32_t calls_ GUARDED_BY(mutex_) = 0;  // of the caller
  uint64_t called_ns_ GUARDED_BY(mutex_) = 0;
  bool called_since_ GUARDED_BY(mutex_) = false;  // the watcher looked
  bool ends_ GUARDED_BY(mutex_) = false;
  std::jthread watcher_;
};

}  // namespace penstock::trace
