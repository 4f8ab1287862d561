#pragma once

// Keeps processors from going to sleep between two stops of a traced program.
//
// A stop under ptrace hands over to the tracer and back, each time to a process that sleeps. The
// switch itself takes 2 us or so. But a processor that has nothing else to do meanwhile is put to
// sleep, on a virtual machine by its host, and to wake it takes another 50 to 100 us: that was
// nineteen twentieths of what a traced call cost there. So for as long as stops follow each other
// closely, each processor gets a thread that only looks at the clock, of the class that runs where
// nothing else wants to (SCHED_IDLE): any other thread takes its place at once.
//
//              stops follow each other closely
//     sleep  ----------------------------------->  awake, until `window` after the last stop
//        ^                                                 |
//        +-------------------------------------------------+
//
// Where the program rests, or computes, its processors are left alone. With one processor there is
// nobody to wake; with very many the threads would cost more than they save, and there are none.
//
// Thread safety: stop_answered() by one thread. Invariant: a thread that sleeps has seen
// awake_until_ns_ in the past after it had said so in sleeping_.

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace penstock::trace {

class AwakeProcessors {
 public:
  AwakeProcessors() = default;
  AwakeProcessors(const AwakeProcessors&) = delete;
  ~AwakeProcessors();

  // A stop has been answered, and the next one is waited for. Of the monotonic clock.
  void stop_answered(uint64_t now_ns);

 private:
  void start();
  void stay_awake(const std::stop_token& stop, unsigned processor);
  void wake();

  uint64_t last_ns_ = 0;
  bool started_ = false;
  std::atomic<uint64_t> awake_until_ns_{0};
  std::atomic<uint32_t> sleeping_{0};
  std::atomic<uint32_t> round_{0};  // what sleepers wait for to change
  std::vector<std::jthread> threads_;
};

}  // namespace penstock::trace
