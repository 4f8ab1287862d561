#include "base/bits.h"

#include <gtest/gtest.h>

namespace penstock {
namespace {

TEST(CeilDiv, IsRightUpToTheLargestNumber) {
  constexpr uint64_t most = ~uint64_t{0};
  EXPECT_EQ(ceil_div(0, 8), 0u);
  EXPECT_EQ(ceil_div(1, 8), 1u);
  EXPECT_EQ(ceil_div(8, 8), 1u);
  EXPECT_EQ(ceil_div(9, 8), 2u);
  EXPECT_EQ(ceil_div(most, 1), most);
  EXPECT_EQ(ceil_div(most, 2), uint64_t{1} << 63);
  EXPECT_EQ(ceil_div(most - 1, most), 1u);
  EXPECT_EQ(ceil_div(most, most), 1u);
}

}  // namespace
}  // namespace penstock
