#include "memory/pool/late_unmaps.h"

#include <gtest/gtest.h>

#include "os/memory.h"

namespace penstock::pool {
namespace {

// The system refuses to unmap an unaligned address.
TEST(LateUnmaps, ReportsAViewThatCannotBeUnmappedAtOnce) {
  auto range = os::Reservation::reserve(4 * os::page_bytes);
  ASSERT_TRUE(range);
  LateUnmaps strict(os::page_bytes, 1);
  EXPECT_EQ(strict.add(range->begin()), 0);
  EXPECT_NE(strict.add(range->begin() + 1), 0);
  EXPECT_EQ(strict.flush(), 0) << "the caller keeps the view";
}

TEST(LateUnmaps, KeepsABatchThatCannotGoYet) {
  auto range = os::Reservation::reserve(4 * os::page_bytes);
  ASSERT_TRUE(range);
  LateUnmaps late(os::page_bytes, 2);
  EXPECT_EQ(late.add(range->begin()), 0);
  EXPECT_EQ(late.add(range->begin() + 2 * os::page_bytes + 1), 0);
  EXPECT_NE(late.flush(), 0);
  late.forget(range->begin() + os::page_bytes, range->end());
  EXPECT_EQ(late.flush(), 0);
}

TEST(LateUnmaps, NothingGoesBeforeItsBatchIsFull) {
  auto range = os::Reservation::reserve(4 * os::page_bytes);
  ASSERT_TRUE(range);
  LateUnmaps late(os::page_bytes, 3);
  EXPECT_EQ(late.add(range->begin() + 1), 0) << "which the system will refuse";
  EXPECT_EQ(late.add(range->begin() + 2 * os::page_bytes), 0);
  EXPECT_NE(late.flush(), 0);
  late.forget(range->begin(), range->begin() + 2 * os::page_bytes);
  EXPECT_EQ(late.flush(), 0);
}

}  // namespace
}  // namespace penstock::pool
