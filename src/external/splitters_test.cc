#include "external/splitters.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/random.h"

namespace penstock::external {
namespace {

TEST(NumberSplitters, ClassifyAgreesWithTheRangesOfBuckets) {
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<uint64_t> sample(random.below(500));
    uint64_t range = uint64_t{1} << random.below(64);
    for (uint64_t& key : sample) key = random.below(10) == 0 ? ~uint64_t{0} : random.below(range);
    NumberSplitters splitters(sample, static_cast<uint32_t>(random.below(70) + 1));
    std::vector<uint64_t> keys = {0, 1, ~uint64_t{0}, ~uint64_t{0} - 1};
    for (uint64_t key : sample) keys.insert(keys.end(), {key, key + 1, key - 1});
    for (uint64_t key : keys) {
      uint32_t number = splitters.classify(key);
      ASSERT_LT(number, splitters.buckets());
      ASSERT_GE(key, splitters.key_min(number));
      ASSERT_LE(key, splitters.key_max(number));
    }
  }
}

TEST(NumberSplitters, AHeavyKeyGetsABucketOfItsOwn) {
  std::vector<uint64_t> sample(1000, 77);
  for (uint64_t i = 0; i < 1000; ++i) sample.push_back(i * 1000);
  NumberSplitters splitters(sample, 8);
  EXPECT_TRUE(splitters.constant(splitters.classify(77)));
}

TEST(StringSplitters, ClassifyAgreesWithTheOrderOfStrings) {
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
    StringSplitters splitters(sample, static_cast<uint32_t>(random.below(40) + 1));
    std::vector<std::pair<std::string, uint32_t>> keys;
    for (int i = 0; i < 200; ++i) {
      std::string key =
          i % 2 == 0 || sample.empty() ? string() : sample[random.below(sample.size())];
      keys.emplace_back(key, splitters.classify(key));
      ASSERT_LT(keys.back().second, splitters.buckets());
    }
    std::sort(keys.begin(), keys.end());
    for (size_t i = 1; i < keys.size(); ++i) {
      ASSERT_LE(keys[i - 1].second, keys[i].second);
      if (keys[i - 1].first != keys[i].first && keys[i - 1].second == keys[i].second) {
        ASSERT_FALSE(splitters.constant(keys[i].second)) << "two keys in a bucket of one";
      }
    }
  }
}

}  // namespace
}  // namespace penstock::external
