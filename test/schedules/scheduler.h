#pragma once

// Runs the library's own lock-free code under every order of its steps, up to a bound: see README.md.
//
//   const Found found = explore("gate.closing", {.deviations = 2}, [](Run& run) {
//     Gate gate;                                    // made anew for each order
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
  void thread(std::function<void()> body);  // 4 at most
  // Runs them until all have ended but those that were killed.
  void go();
  // The thread, counted from 0 in the order of thread(), takes no further step, if it has not ended. Called by another
  // one.
  void kill(int thread);
  bool is_dead(
      int thread) const;        // a thread to which that is told has seen all that the dead one did
  int waits(int thread) const;  // how often it has waited so far
  // Lets what was killed run to its end, so that nothing of it stays behind. Nothing is looked at any more.
  void bury();
};

struct Bounds {
  // How often an order may leave the plain one, in which a thread runs until it waits: by a thread that is interrupted,
  // by a load that gives an older value than the newest, or by a wait that ends because its time is over.
  int deviations = 2;
  // How many random orders follow those, without that bound, and when to stop in any case.
  uint64_t random = 500;
  uint64_t orders_max = 200'000;
  // A process for each order, which costs a fork: for code that keeps something from one order to the next.
  bool in_processes = false;
};

struct Found {
  std::optional<std::string> failure;  // what went wrong, and the line that repeats it
  uint64_t orders = 0;                 // that were run
  bool is_complete = false;            // all orders within the bound were
  // Whether the scenario took the same steps in the same order; otherwise nothing is shown.
  bool repeats = true;
};

// Calls the scenario once for each order, in a child process: a failure ends it. With PENSTOCK_SCHEDULE=NAME=..., as a
// failure prints it, the scenario of that name runs in this order alone, and tells its steps.
// PENSTOCK_TEST_SEED is the seed of the random ones.
Found explore(const std::string& name, const Bounds& bounds,
              const std::function<void(Run&)>& scenario);

// Within a scenario. A failure of this order, unless the condition holds.
void require(bool condition, const char* what);
// Within a thread: others may go first. Every atomic operation, lock, and wait of instrumented code is such a point.
void point();
// Within a thread: bytes of the file with this number, mapped at `at`, are the same memory in each of their mappings.
void same_memory(const void* at, uint64_t bytes, uint64_t file, uint64_t offset);

// The fault of plants.cmake that is switched on; 0: none.
void plant(int fault);

}  // namespace penstock::schedules
