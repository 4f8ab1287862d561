#include "sorting/sort/in_place/heavy_keys.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "sorting/sort/in_place/in_place_sort.h"

namespace penstock::sorting {
namespace {

constexpr KeyOrder ascending;
constexpr KeyOrder descending = {.flip = ~uint64_t{0}};

// Returns items of which `heavy` keys make up `share`, in unequal parts.
template <class T>
std::vector<T> mixed(uint64_t seed, size_t count, size_t heavy, double share) {
  Random random(seed);
  std::vector<T> keys(heavy);
  for (T& key : keys) key = static_cast<T>(random.next());
  keys[0] = 0;
  if (heavy > 1) keys[1] = static_cast<T>(~T{0});
  std::vector<T> items(count);
  for (T& item : items) {
    const bool is_heavy = static_cast<double>(random.below(1000)) < share * 1000;
    item = is_heavy ? keys[random.below(random.below(heavy) + 1)] : static_cast<T>(random.next());
  }
  return items;
}

template <class T>
std::vector<uint64_t> sample_of(const std::vector<T>& items, const KeyOrder& order) {
  std::vector<uint64_t> sample;
  for (size_t i = 0; i < items.size(); i += 7) sample.push_back(encode(items[i], order));
  std::sort(sample.begin(), sample.end());
  return sample;
}

template <class T>
class HeavyKeysOf : public testing::Test {};
using Numbers = testing::Types<uint32_t, uint64_t>;
TYPED_TEST_SUITE(HeavyKeysOf, Numbers);

TYPED_TEST(HeavyKeysOf, AreTakenOutAndPutBack) {
  using T = TypeParam;
  for (const uint64_t seed : {1, 2, 3, 4}) {
    for (const size_t heavy : {size_t{1}, size_t{2}, size_t{60}, size_t{3000}}) {
      for (const KeyOrder& order : {ascending, descending}) {
        SCOPED_TRACE(testing::Message() << "seed " << seed << ", heavy " << heavy);
        const size_t count = 20000 + seed * 13;
        const auto items = mixed<T>(seed, count, heavy, 0.7);
        auto keys = find_heavy_keys<T>(sample_of(items, order), order);
        if (keys == nullptr && heavy == 3000) continue;  // most are in the sample once or twice
        ASSERT_NE(keys, nullptr);
        auto expected = items;
        std::sort(expected.begin(), expected.end(),
                  [&](T a, T b) { return encode(a, order) < encode(b, order); });
        for (const unsigned threads : {1u, 3u}) {
          for (const bool in_place : {true, false}) {
            auto out = in_place ? items : std::vector<T>(count);
            HeavyCounts<T> counts(std::make_unique<HeavyKeys>(*keys), threads);
            const size_t others =
                counts.take_out(in_place ? out.data() : items.data(), count, out.data());
            if (heavy < 100) {
              EXPECT_LT(others, count * 4 / 10);
            }
            for (size_t i = 0; i < others; ++i) {
              const auto place = HeavyKeys::place_of(out[i]);
              ASSERT_NE(static_cast<T>(keys->keys[place]), out[i]);
            }
            std::sort(out.begin(), out.begin() + static_cast<ptrdiff_t>(others),
                      [&](T a, T b) { return encode(a, order) < encode(b, order); });
            counts.put_back(out.data(), others, order);
            ASSERT_EQ(out, expected);
          }
        }
      }
    }
  }
}

TEST(HeavyKeys, AreNoneIfKeysAreMany) {
  Random random(7);
  std::vector<uint64_t> sample(10000);
  for (uint64_t& key : sample) key = random.next();
  std::sort(sample.begin(), sample.end());
  EXPECT_EQ(find_heavy_keys<uint64_t>(sample, {}), nullptr);
}

// Keys that fill another key's place must not be found there.
TEST(HeavyKeys, AreNotTheKeysThatMarkEmptyPlaces) {
  std::vector<uint64_t> sample(100, 12345);
  auto keys = find_heavy_keys<uint64_t>(sample, {});
  ASSERT_NE(keys, nullptr);
  std::vector<uint64_t> items = {0, 1, 12345, 0, 1, 2, ~uint64_t{0}, 12345};
  HeavyCounts<uint64_t> counts(std::move(keys), 1);
  EXPECT_EQ(counts.take_out(items.data(), items.size(), items.data()), 6u);
}

// Through the sort itself: large enough for a sample.
TYPED_TEST(HeavyKeysOf, SortLargeInput) {
  using T = TypeParam;
  const size_t count = (3u << 20) / sizeof(T) + 5;
  for (const double share : {0.2, 0.5, 0.99}) {
    for (const unsigned threads : {1u, 2u}) {
      for (const uint64_t first : {uint64_t{100}, ~uint64_t{0}}) {
        const auto items = mixed<T>(11, count, 40, share);
        auto expected = items;
        std::sort(expected.begin(), expected.end());
        auto sorted = items;
        ASSERT_TRUE(sort_in_place(sorted.data(), count, {.threads = threads, .first = first}));
        if (first == 100) {
          ASSERT_TRUE(std::equal(sorted.begin(), sorted.begin() + 100, expected.begin()));
          std::sort(sorted.begin(), sorted.end());
        }
        ASSERT_EQ(sorted, expected);
      }
    }
  }
}

}  // namespace
}  // namespace penstock::sorting
