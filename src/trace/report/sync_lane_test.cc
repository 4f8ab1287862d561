#include "trace/report/sync_lane.h"

#include <gtest/gtest.h>

namespace penstock::report {
namespace {

TEST(SyncLane, FewSyncsHaveEachItsPlace) {
  SyncLane lane;
  for (const uint64_t order : {0, 7, 7, 90}) lane.add(order, 100 + order);
  EXPECT_EQ(lane.requests_per_cell(), 1u);
  ASSERT_EQ(lane.cells().size(), 3u);
  EXPECT_EQ(lane.cells()[1].place, 7u);
  EXPECT_EQ(lane.cells()[1].syncs, 2u);
  EXPECT_EQ(lane.cells()[2].slowest_ns, 190u);
}

TEST(SyncLane, ManySyncsAreCountedInBoundedMemory) {
  SyncLane lane;
  constexpr uint64_t syncs = 1'000'000;
  for (uint64_t order = 0; order < syncs; ++order) lane.add(order, order);
  EXPECT_LE(lane.cells().size(), SyncLane::cells_max);
  EXPECT_GT(lane.cells().size(), SyncLane::cells_max / 4);
  uint64_t count = 0;
  for (const SyncLane::Cell& cell : lane.cells()) {
    count += cell.syncs;
    EXPECT_EQ(cell.slowest_ns, std::min((cell.place + 1) * lane.requests_per_cell(), syncs) - 1);
  }
  EXPECT_EQ(count, syncs);
}

}  // namespace
}  // namespace penstock::report
