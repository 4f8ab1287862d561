// Test labels: one-thread

#include "sorting/sort/cache/cache_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/failing_heap_fixture.h"
#include "base/random.h"
#include "penstock/base.h"
#include "sorting/sort/item_fixture.h"

namespace penstock::sorting {
namespace {

struct Shape {
  const char* name;
  uint64_t (*key)(Random&, uint64_t i, uint64_t count);
};
const Shape shapes[] = {
    {"uniform", [](Random& r, uint64_t, uint64_t) { return r.next(); }},
    {"narrow", [](Random& r, uint64_t, uint64_t) { return (uint64_t{1} << 40) + r.below(1000); }},
    {"all equal", [](Random&, uint64_t, uint64_t) { return uint64_t{42}; }},
    {"all greatest", [](Random&, uint64_t, uint64_t) { return ~uint64_t{0}; }},
    {"rising", [](Random&, uint64_t i, uint64_t) { return i; }},
    {"falling", [](Random&, uint64_t i, uint64_t count) { return count - i; }},
    {"few distinct", [](Random& r, uint64_t, uint64_t) { return mix64(r.below(6)); }},
    {"every bit length", [](Random& r, uint64_t, uint64_t) { return r.next() >> r.below(64); }},
    {"exponential", [](Random& r, uint64_t, uint64_t) { return uint64_t{1} << r.below(64); }},
    // Fills some slots, but not so many that slots are given up.
    {"a dense twentieth",
     [](Random& r, uint64_t, uint64_t) { return r.below(20) == 0 ? uint64_t{7} << 50 : r.next(); }},
    {"outliers",
     [](Random& r, uint64_t i, uint64_t) { return i % 999 == 5 ? r.next() : r.below(9); }},
};

template <class T>
void expect_like_stable_sort(const Shape& shape, size_t count, const KeyOrder& order,
                             uint64_t seed) {
  SCOPED_TRACE(testing::Message() << sizeof(T) << " bytes, " << shape.name << ", " << count
                                  << " items, flip " << order.flip << ", seed " << seed);
  Random random(seed);
  std::vector<T> items(count);
  for (size_t i = 0; i < count; ++i)
    items[i] =
        make_item<T>(shape.key(random, i, count), std::is_same_v<T, Key128> ? mix64(i) % 4 : i);
  std::vector<T> expected = items;
  std::stable_sort(expected.begin(), expected.end(), [&](const T& a, const T& b) {
    return less(encode(a, order), encode(b, order));
  });

  auto sorter = CacheSort<T>::open(count + random.below(100), order);
  ASSERT_TRUE(sorter) << sorter.error().message();
  for (int round = 0; round < 2; ++round) {  // a sorter is used again
    std::vector<Piece<T>> pieces;
    for (size_t at = 0; at < count;) {
      const size_t here = std::min<size_t>(random.below(count / 2 + 1) + 1, count - at);
      pieces.push_back({items.data() + at, here});
      at += here;
    }
    KeyRange keys = {~uint64_t{0}, 0};
    for (const T& item : items) {
      const uint64_t key = key_of(encode(item, order));
      keys = {std::min(keys.low, key), std::max(keys.high, key)};
    }
    if (count == 0) keys = {};
    sorter->load(pieces, count, keys);
    const T canary = make_item<T>(0x5a5a5a5a5a5a5a5a, 3);
    std::vector<T> out(count + 2, canary);
    {
      const FailingAllocation failing;
      sorter->store(out.data() + 1);
      ASSERT_FALSE(failing.failed()) << "storing needs memory";
    }
    ASSERT_EQ(std::memcmp(&out.front(), &canary, sizeof(T)), 0) << "written before the start";
    ASSERT_EQ(std::memcmp(&out.back(), &canary, sizeof(T)), 0) << "written past the end";
    ASSERT_TRUE(count == 0 || std::memcmp(out.data() + 1, expected.data(), count * sizeof(T)) == 0);
  }
}

template <class T>
class CacheSortTest : public testing::Test {};
using Types = testing::Types<uint32_t, uint64_t, KeyValue, Key128>;
TYPED_TEST_SUITE(CacheSortTest, Types);

TYPED_TEST(CacheSortTest, SortsLikeStableSort) {
  uint64_t seed = 1;
  for (const Shape& shape : shapes) {
    for (size_t count : {0, 1, 2, 255, 256, 257, 300, 512, 1000, 4099, 30001}) {
      for (const KeyOrder& order : {KeyOrder{}, KeyOrder{.flip = ~uint64_t{0}}}) {
        expect_like_stable_sort<TypeParam>(shape, count, order, seed++);
        if (this->HasFatalFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace penstock::sorting
