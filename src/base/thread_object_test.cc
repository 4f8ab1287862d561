#include "base/thread_object.h"

#include <gtest/gtest.h>

#include <new>
#include <thread>

#include "base/failing_heap_fixture.h"

namespace penstock {
namespace {

int alive = 0;
struct Counted {
  Counted() { ++alive; }
  ~Counted() { --alive; }
  int value = 0;
};
constinit thread_local ThreadObject<Counted> first, second;

TEST(ThreadObject, EachThreadHasItsOwnUntilItEnds) {
  first.get().value = 1;
  const int before = alive;
  std::thread([&] {
    EXPECT_EQ(first.get().value, 0);
    first.get().value = 2;
    second.get().value = 3;
    EXPECT_EQ(first.get().value, 2);
    EXPECT_EQ(alive, before + 2);
  }).join();
  EXPECT_EQ(alive, before);
  EXPECT_EQ(first.get().value, 1);
}

TEST(ThreadObject, AFirstUseWithoutMemoryThrowsAndTheNextOneWorks) {
  if (!heap_can_fail) GTEST_SKIP() << "the heap is a sanitizer's";
  std::thread([] {
    const int before = alive;
    {
      const FailingAllocation failing;
      EXPECT_THROW(first.get(), std::bad_alloc);
    }
    EXPECT_EQ(alive, before);
    first.get().value = 4;
    EXPECT_EQ(first.get().value, 4);
  }).join();
}

}  // namespace
}  // namespace penstock
