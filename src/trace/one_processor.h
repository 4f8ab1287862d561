#pragma once

// A traced thread and its tracer take turns: one waits whenever the other runs. On two processors
// each turn wakes a processor that has gone to sleep, and the scheduler, to which an idle processor
// looks better than a busy one, brings that about each time anew. On one processor a turn is a
// switch. So a thread that makes many calls is kept on the tracer's processor.
//
// The program shall not notice. What could show it, or hand it on, is asked of the kernel by the
// calls of `about_processors()`: at the entry of such a call let_go(), so that it finds things as
// they were, and after its exit keep() again, with what it has changed. (What is left is
// /proc/PID/status, which names the one processor.) If somebody else moves the thread meanwhile
// (taskset -p), that stands.

#include <cstdint>
#include <memory>
#include <span>

namespace penstock::trace {

// Thread safety: one thread, the tracer's own.
// Invariants: while no thread is kept, it and the tracer may run where they could before.
class OneProcessor {
 public:
  OneProcessor();
  ~OneProcessor();  // lets go
  OneProcessor(const OneProcessor&) = delete;
  OneProcessor& operator=(const OneProcessor&) = delete;

  // Lets go of another one. Where there is no processor for both, or no right to choose, nothing is
  // changed. REQUIRES: the thread is stopped, and in no call of about_processors().
  void keep(int32_t thread);
  void let_go();
  bool keeps(int32_t thread) const { return thread_ == thread; }
  // A thread runs a new program and has a new number; the others of its process are gone.
  void executed(int32_t number_before, int32_t number);

  // Numbers of system calls that tell where a thread may run, change it, or make a thread that may
  // run there as well.
  static std::span<const uint32_t> about_processors();

 private:
  struct Places;
  std::unique_ptr<Places> places_;
  int32_t thread_ = 0;  // 0: none
};

}  // namespace penstock::trace
