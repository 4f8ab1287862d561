#include "files/bowtie/device_profile.h"

#include <gtest/gtest.h>

#include <cmath>

namespace penstock::bowtie {
namespace {

TEST(DeviceProfile, PublishedOnesAreUsableAndNameTheirSource) {
  EXPECT_EQ(published_profiles().size(), 4u);
  for (const DeviceProfile& profile : published_profiles()) {
    EXPECT_TRUE(profile.check().has_value()) << profile.name;
    EXPECT_FALSE(profile.source.empty()) << profile.name;
    EXPECT_EQ(find_profile(profile.name), &profile);
  }
  EXPECT_EQ(find_profile("tape"), nullptr);
  EXPECT_EQ(&paper_array(), find_profile("paper-array"));
}

TEST(SwitchDelay, AConstantHoldsEverywhere) {
  EXPECT_EQ(SwitchDelay().at(3, 4), 0);
  EXPECT_EQ(SwitchDelay(0.5).at(0, 1000), 0.5);
}

TEST(SwitchDelay, ATableIsInterpolatedAndHoldsItsEdges) {
  const auto delay = SwitchDelay::table({0, 1, 63}, {1, 7}, {1, 2, 3, 4, 9, 10});
  ASSERT_TRUE(delay.has_value());
  EXPECT_DOUBLE_EQ(delay->at(0, 1), 1);
  EXPECT_DOUBLE_EQ(delay->at(0, 7), 2);
  EXPECT_DOUBLE_EQ(delay->at(1, 1), 3);
  EXPECT_DOUBLE_EQ(delay->at(63, 7), 10);
  EXPECT_DOUBLE_EQ(delay->at(1000, 1000), 10);
  EXPECT_DOUBLE_EQ(delay->at(0, 0), 1);
  // log2(streams + 1): 7 lies 2/5 of the way from 1 to 63, 3 half-way from 1 to 7.
  EXPECT_NEAR(delay->at(7, 1), 3 + 6 * 0.4, 1e-12);
  EXPECT_NEAR(delay->at(1, 3), 3.5, 1e-12);
  EXPECT_NEAR(delay->at(7, 3), 3 + 6 * 0.4 + 0.5, 1e-12);
}

TEST(SwitchDelay, TablesThatMakeNoSenseAreRefused) {
  EXPECT_FALSE(SwitchDelay::table({1, 1}, {1}, {1, 2}));
  EXPECT_FALSE(SwitchDelay::table({}, {1}, {}));
  EXPECT_FALSE(SwitchDelay::table({1, 2}, {1}, {1}));
  EXPECT_FALSE(SwitchDelay::table({1}, {1}, {-1}));
  EXPECT_FALSE(SwitchDelay::table({1}, {1}, {std::nan("")}));
}

TEST(DeviceProfile, SpeedsMustBePositive) {
  DeviceProfile profile = paper_array();
  profile.write_bytes_per_s = 0;
  EXPECT_FALSE(profile.check());
  profile = paper_array();
  profile.switch_seconds = SwitchDelay(-1);
  EXPECT_FALSE(profile.check());
}

}  // namespace
}  // namespace penstock::bowtie
