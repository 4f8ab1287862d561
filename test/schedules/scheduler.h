#pragma once

// A scheduler that runs the library's own lock-free code under every order of its steps, up to a bound: see README.md.
//
//   const Found found = explore("gate.closing", {.deviations = 2}, [](Run& run) {
//     Gate gate;                                    // constructed for each order
//     run.thread([&] { Gate::Visit visit(gate); ... });
//     run.thread([&] { Gate::Closing closing(gate); ... });
//     run.go();                                     // until both have ended
//     require(..., "what must be so at the end");
//   });
//   EXPECT_FALSE(found.failure) << *found.failure;

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace penstock::schedules {

// The threads of one order. Thread safety: used by the scenario's own thread; kill(), is_dead() and waits() by its threads.
class Run {
 public:
  void thread(std::function<void()> body);  // at most 4 threads
  // Runs the threads until all have ended, except killed ones.
  void go();
  // Stops the thread, numbered from 0 in the order of thread(), if it has not ended. Called by another thread.
  void kill(int thread);
  bool is_dead(int thread) const;  // a caller that gets true has seen all that the dead thread did
  int waits(int thread) const;     // number of its waits so far
  // Lets killed threads run to their ends, so that they leave nothing behind. No more checks are made.
  void bury();
};

struct Bounds {
  // The most deviations of an order from the plain one, in which a thread runs until it waits. Deviations are an
  // interrupted thread, a load that returns an older value than the newest, and a wait that times out.
  int deviations = 2;
  // The number of random orders that follow, without that bound, and the limit on time.
  uint64_t random = 500;
  uint64_t orders_max = 200'000;
  // Forks a process for each order: for code that keeps state from one order to the next.
  bool in_processes = false;
};

struct Found {
  std::optional<std::string> failure;  // the error, and the line that repeats it
  uint64_t orders = 0;                 // number of orders that were run
  bool is_complete = false;            // all orders within the bound were run
  // Whether the scenario took the same steps when an order was repeated; otherwise the search proves nothing.
  bool repeats = true;
};

// Calls the scenario once for each order, in a child process: a failure ends it. With PENSTOCK_SCHEDULE=NAME=..., as
// a failure prints it, the scenario of that name runs only in this order, and prints its steps. PENSTOCK_TEST_SEED is
// the seed of the random ones.
Found explore(const std::string& name, const Bounds& bounds,
              const std::function<void(Run&)>& scenario);

// Fails this order unless the condition holds. To be called within a scenario.
void require(bool condition, const char* what);
// Lets other threads go first. To be called within a thread; every atomic operation, lock and wait of instrumented code is such a point.
void point();
// Declares that bytes of the file with this number, mapped at `at`, are the same memory in all their mappings. To be called within a thread.
void same_memory(const void* at, uint64_t bytes, uint64_t file, uint64_t offset);

// Switches on a fault of plants.cmake; 0: none.
void plant(int fault);

}  // namespace penstock::schedules
