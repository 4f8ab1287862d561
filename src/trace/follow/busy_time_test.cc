#include "trace/follow/busy_time.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"
#include "base/trials.h"

namespace penstock::trace {
namespace {

TEST(BusyTime, OverlapsCountOnce) {
  BusyTime busy;
  busy.add(10, 20);
  busy.add(15, 30);  // overlaps
  busy.add(30, 40);  // touches
  busy.add(5, 12);   // late
  busy.add(100, 100);
  busy.add(60, 50);  // no time at all
  busy.add(70, 80);
  EXPECT_EQ(busy.finish(), 35u + 10);
}

// However few intervals are held back, calls that are late by less than these are counted right.
TEST(BusyTime, IsTheUnionOfAllCalls) {
  const uint64_t seed = seed_of_run();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (const size_t kept : {8u, 64u, 4096u}) {
    BusyTime busy(kept);
    std::vector<bool> covered(200'000);
    uint64_t at = 100;
    for (int i = 0; i < 20'000; ++i) {
      at += random.below(8);
      const uint64_t start = at - random.below(15), end = start + random.below(12);
      busy.add(start, end);
      for (uint64_t t = start; t < end; ++t) covered[t] = true;
    }
    const auto all = static_cast<uint64_t>(std::ranges::count(covered, true));
    EXPECT_EQ(busy.finish(), all) << kept;
  }
}

}  // namespace
}  // namespace penstock::trace
