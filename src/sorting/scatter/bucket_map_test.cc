#include "sorting/scatter/bucket_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"

namespace penstock::scatter {
namespace {

// Checks that every key lies in the range of its bucket, and a greater key in no lower bucket.
void expect_monotone(const BucketMap& map, std::vector<uint64_t> keys) {
  std::ranges::sort(keys);
  uint32_t before = 0;
  for (uint64_t key : keys) {
    const uint32_t bucket = map(key);
    ASSERT_LT(bucket, map.buckets) << "key " << key;
    ASSERT_GE(bucket, before) << "key " << key;
    const KeyRange held = map.keys_of(bucket);
    ASSERT_LE(held.low, key) << "bucket " << bucket;
    ASSERT_GE(held.high, key) << "bucket " << bucket;
    before = bucket;
  }
}

std::vector<uint64_t> keys_around(Random& random, const BucketMap& map, const KeyRange& range) {
  std::vector<uint64_t> keys = {0, ~uint64_t{0}, range.low, range.high};
  for (uint32_t j = 0; j < map.buckets; ++j) {
    const KeyRange held = map.keys_of(j);
    for (uint64_t key : {held.low, held.high}) {
      keys.push_back(key);
      if (key != 0) keys.push_back(key - 1);
      if (key != ~uint64_t{0}) keys.push_back(key + 1);
    }
  }
  for (int i = 0; i < 200; ++i) keys.push_back(random.next() >> random.below(64));
  return keys;
}

TEST(BucketMap, CutsAnyRangeIntoAnyNumberOfBuckets) {
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    Random random(seed);
    uint64_t low = random.next() >> random.below(64);
    uint64_t width = random.next() >> random.below(64);
    if (seed % 5 == 0) low = 0;
    if (seed % 5 == 1) low = ~width;
    if (seed % 7 == 0) width = random.below(20);
    const KeyRange range = {low, low > ~width ? ~uint64_t{0} : low + width};
    const auto wanted = static_cast<uint32_t>(random.below(seed % 3 == 0 ? 2500 : 20) + 1);
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << range.low << " to " << range.high
                                    << ", " << wanted << " buckets");
    const BucketMap map = BucketMap::by_range(range, wanted);
    ASSERT_LE(map.buckets, wanted);
    // Keys outside of the range go to the outermost buckets, and to no others.
    ASSERT_EQ(map(range.low), 0u);
    ASSERT_EQ(map(range.high), map.buckets - 1);
    expect_monotone(map, keys_around(random, map, range));
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(BucketMap, GivesEachOfFewKeysABucket) {
  for (uint64_t low : {uint64_t{0}, uint64_t{1000}, ~uint64_t{0} - 99}) {
    const BucketMap map = BucketMap::by_range({low, low + 99}, 100);
    ASSERT_EQ(map.buckets, 100u);
    for (uint32_t j = 0; j < 100; ++j) ASSERT_EQ(map(low + j), j);
  }
}

// Each bucket is nearly as wide as its share of the range.
void expect_even(const KeyRange& range, uint32_t wanted) {
  const BucketMap map = BucketMap::by_range(range, wanted);
  ASSERT_EQ(map.buckets, wanted);
  const double share = (static_cast<double>(range.high - range.low) + 1) / wanted;
  const double place = std::ldexp(1, static_cast<int>(map.shift));
  double low = 0;
  for (uint32_t j = 0; j < wanted; ++j) {
    const double high = j + 1 == wanted ? share * wanted
                                        : static_cast<double>(first_key_of(map, j + 1) - range.low);
    ASSERT_NEAR(high - low, share, share / 100 + 2 * place) << "bucket " << j;
    low = high;
  }
}

TEST(BucketMap, SharesAnyRangeEvenly) {
  expect_even({0, ~uint64_t{0}}, 1000);
  expect_even({0, 999}, 10);
  // Places of 32 bits would give a multiplier of 2 for 2.99: shares of three quarters and one.
  expect_even({0, 0xab000000}, 2);
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    Random random(seed);
    const auto wanted = static_cast<uint32_t>(random.below(uint64_t{1} << random.below(15)) + 1);
    const uint64_t width = wanted + (random.next() >> (1 + random.below(50)));
    const uint64_t low = random.next() >> 1;
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << wanted << " buckets");
    expect_even({low, low > ~width ? ~uint64_t{0} : low + width}, wanted);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(BucketMap, SearchesAmongSplitters) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    std::vector<uint64_t> splitters(random.below(300) + 1);
    for (uint64_t& key : splitters) key = random.next() >> random.below(64);
    if (seed % 3 == 0) splitters.push_back(~uint64_t{0});
    std::erase(splitters, uint64_t{0});
    std::ranges::sort(splitters);
    splitters.erase(std::unique(splitters.begin(), splitters.end()), splitters.end());
    const BucketMap map = BucketMap::by_splitters(splitters);
    ASSERT_EQ(map.buckets, splitters.size() + 1);
    for (uint32_t j = 0; j < splitters.size(); ++j) {
      ASSERT_EQ(map(splitters[j]), j + 1);
      ASSERT_EQ(map(splitters[j] - 1), j);
    }
    expect_monotone(map, keys_around(random, map, {splitters.front(), splitters.back()}));
    if (testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace penstock::scatter
