// Schedule tests of gates, semaphores, event counts, and views that are unmapped late.

#include <gtest/gtest.h>

#include <cstddef>

#include "base/mutex.h"
#include "memory/pool/late_unmaps.h"
#include "memory/rewire/gate.h"
#include "memory/stream/sides.h"
#include "os/memory.h"
#include "os/semaphore.h"
#include "schedules/expectations.h"

namespace penstock::schedules {
namespace {

// A counter of the test, which the scheduler does not see.
class Count {
 public:
  [[gnu::no_sanitize_thread, gnu::noinline]] void add() { ++value_; }
  [[gnu::no_sanitize_thread, gnu::noinline]] int now() const { return value_; }

 private:
  int value_ = 0;
};

// ---- gates

// Work inside a closed gate and work of visitors exclude each other, and all threads get through.
void closing(Run& run) {
  rewire::Gate gate;
  int guarded = 0, visited[2] = {};
  for (int& own : visited)
    run.thread([&] {
      const rewire::Gate::Visit visit(gate);
      own = guarded + 1;
      point();
      require(own == guarded + 1, "something changed behind a gate that was open");
    });
  run.thread([&] {
    const rewire::Gate::Closing closed(gate);
    ++guarded;
    point();
    require(guarded == 1 && visited[0] + visited[1] >= 0, "closed twice");
  });
  run.go();
  require(visited[0] > 0 && visited[1] > 0, "a visitor did not come through");
}

// A visitor waits for at most two closings, however often the gate is closed.
void fairness(Run& run) {
  rewire::Gate gate;
  Count passed;
  run.thread([&] {
    const rewire::Gate::Visit visit(gate);
    passed.add();
  });
  run.thread([&] {
    int waited_for = 0;
    for (int i = 0; i < 4; ++i) {
      const rewire::Gate::Closing closed(gate);
      waited_for += run.waits(0) > 0 && passed.now() == 0;
      require(waited_for <= 2, "a visitor waited for more than two closings");
    }
  });
  run.go();
}

// ---- semaphores

void exclusion(Run& run) {
  os::Semaphore mutex(1);
  int guarded = 0;
  for (int i = 0; i < 2; ++i)
    run.thread([&] {
      const os::SemaphoreLock lock(mutex);
      const int before = guarded;
      point();
      guarded = before + 1;
    });
  run.go();
  require(guarded == 2, "two threads had the lock at once");
}

// A unit that is released wakes the thread that waits for it.
void handing(Run& run) {
  os::Semaphore full, empty;
  int item = 0;
  run.thread([&] {
    item = 1;
    full.release();
    require(empty.acquire(), "closed");
    require(item == 2, "the item did not come back");
  });
  run.thread([&] {
    require(full.acquire(), "closed");
    require(item == 1, "the item did not come");
    item = 2;
    empty.release();
  });
  run.go();
}

// ---- counts of events

// One announcement wakes every waiter.
void announcing(Run& run) {
  Mutex mutex;
  stream::EventCount changes;
  bool has_come = false;
  run.thread([&] {
    const MutexLock lock(mutex);
    while (!has_come) changes.wait(mutex);
  });
  run.thread([&] {
    const MutexLock lock(mutex);
    has_come = true;
    changes.announce();
  });
  run.go();
}

// ---- late unmaps

// Two sides repeatedly map a block at an address of their own, and release it: no view in use vanishes.
void views(Run& run) {
  constexpr size_t block = os::page_bytes;
  auto range = os::Reservation::reserve(2 * block);
  require(range.has_value(), "no addresses");
  pool::LateUnmaps late(block, 2);
  const auto use = [&](int side) {
    for (int turn = 0; turn < 3; ++turn) {
      std::byte* const at = range->begin() + side * block;
      const int error = late.place(at, [&] {
        point();
        return os::commit(at, block);
      });
      require(error == 0, "a view cannot be mapped");
      point();
      // Access to a vanished view is a fault without a handler.
      *static_cast<volatile std::byte*>(at) = std::byte{1};
      require(late.add(at) == 0, "a view cannot be unmapped");
    }
  };
  run.thread([&] { use(0); });
  run.thread([&] { use(1); });
  run.go();
  require(late.flush() == 0, "views cannot be unmapped");
}

TEST(GateSchedules, NobodyIsInsideAClosedGate) {
  expect_right({"gate.closing", closing, {.deviations = 3}});
}
TEST(GateSchedules, NobodyWaitsForMoreThanTwoClosings) {
  expect_right({"gate.fairness", fairness, {.deviations = 4}});
}
TEST(GateSchedules, ASemaphoreExcludes) {
  expect_right({"semaphore.exclusion", exclusion, {.deviations = 4}});
}
TEST(GateSchedules, ASemaphoreHandsOver) {
  expect_right({"semaphore.handing", handing, {.deviations = 4}});
}
TEST(GateSchedules, AnAnnouncementWakesEveryWaiter) {
  expect_right({"event_count.announcing", announcing, {.deviations = 4}});
}
TEST(GateSchedules, ViewsThatAreUsedStay) {
  expect_right({"late_unmaps.views", views, {.deviations = 2}});
}
TEST(GateSchedules, PlantedFaultsAreFound) {
  for (const int fault : {11, 12, 13, 14, 15})
    expect_found(fault, {"gate.closing", closing, {.deviations = 3}});
  expect_found(16, {"gate.fairness", fairness, {.deviations = 4}});
  expect_found(21, {"semaphore.handing", handing, {.deviations = 4}});
  expect_found(22, {"semaphore.handing", handing, {.deviations = 4}});
  expect_found(23, {"semaphore.exclusion", exclusion, {.deviations = 4}});
  expect_found(24, {"semaphore.handing", handing, {.deviations = 4}});
  for (const int fault : {25, 26})
    expect_found(fault, {"event_count.announcing", announcing, {.deviations = 4}});
  expect_found(31, {"late_unmaps.views", views, {.deviations = 2}});
  expect_found(32, {"late_unmaps.views", views, {.deviations = 2}});
}

}  // namespace
}  // namespace penstock::schedules
