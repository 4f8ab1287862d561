// Test labels: one-thread

#include "files/sort/split/splitters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/random.h"
#include "sorting/scatter/bucket_map.h"

namespace penstock::external {
namespace {

TEST(NumberBounds, AHeavyKeyGetsABucketOfItsOwn) {
  for (uint64_t heavy : {uint64_t{0}, uint64_t{77}, ~uint64_t{0}}) {
    std::vector<uint64_t> sample(1000, heavy);
    for (uint64_t i = 0; i < 1000; ++i) sample.push_back(i * 1000);
    auto map = scatter::BucketMap::by_splitters(number_bounds(sample, 8));
    auto keys = map.keys_of(map(heavy));
    EXPECT_EQ(keys.low, heavy);
    EXPECT_EQ(keys.high, heavy);
  }
}

TEST(NumberBounds, RiseAndMakeNoMoreBucketsThanAsked) {
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<uint64_t> sample(random.below(500));
    uint64_t range = uint64_t{1} << random.below(64);
    for (uint64_t& key : sample) key = random.below(10) == 0 ? ~uint64_t{0} : random.below(range);
    auto buckets = static_cast<uint32_t>(random.below(70) + 1);
    auto bounds = number_bounds(sample, buckets);
    ASSERT_LT(bounds.size(), buckets);
    ASSERT_EQ(std::adjacent_find(bounds.begin(), bounds.end(), std::greater_equal<>()),
              bounds.end());
    ASSERT_TRUE(bounds.empty() || bounds.front() > 0) << "a bucket below the least key";
  }
}

TEST(TextCuts, PartsAreInTheOrderOfStrings) {
  Random random(2);
  auto string = [&] {
    std::string text;
    for (uint64_t length = random.below(12); length > 0; --length)
      text.push_back(static_cast<char>(random.below(3) * 127));
    return text;
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<std::string> sample(random.below(300));
    for (std::string& key : sample) key = string();
    const items::Cuts cuts = text_cuts(*items::parse_format("lines"), sample,
                                       static_cast<uint32_t>(random.below(40) + 1));
    std::vector<std::pair<std::string, uint32_t>> keys;
    for (int i = 0; i < 200; ++i) {
      std::string key =
          i % 2 == 0 || sample.empty() ? string() : sample[random.below(sample.size())];
      keys.emplace_back(key, cuts.part_of(key));
      ASSERT_LT(keys.back().second, cuts.parts());
    }
    std::sort(keys.begin(), keys.end());
    for (size_t i = 1; i < keys.size(); ++i) {
      ASSERT_LE(keys[i - 1].second, keys[i].second);
      if (keys[i - 1].first != keys[i].first && keys[i - 1].second == keys[i].second) {
        ASSERT_FALSE(cuts.holds_one_key(keys[i].second)) << "two keys in a bucket of one";
      }
    }
  }
}

}  // namespace
}  // namespace penstock::external
