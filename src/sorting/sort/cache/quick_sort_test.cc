#include "sorting/sort/cache/quick_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "base/random.h"
#include "os/cpu.h"
#include "sorting/sort/item_fixture.h"

namespace penstock::sorting {
namespace {

struct Pattern {
  const char* name;
  uint64_t (*key)(Random&, size_t i, size_t count);
};
const Pattern patterns[] = {
    {"uniform", [](Random& r, size_t, size_t) { return r.next(); }},
    {"all equal", [](Random&, size_t, size_t) { return uint64_t{42}; }},
    {"all greatest", [](Random&, size_t, size_t) { return ~uint64_t{0}; }},
    {"all zero", [](Random&, size_t, size_t) { return uint64_t{0}; }},
    {"two keys, the extremes", [](Random& r, size_t, size_t) { return 0 - r.below(2); }},
    {"few distinct", [](Random& r, size_t, size_t) { return mix64(r.below(5)); }},
    {"rising", [](Random&, size_t i, size_t) { return uint64_t{i}; }},
    {"falling", [](Random&, size_t i, size_t count) { return uint64_t{count - i}; }},
    {"organ pipe",
     [](Random&, size_t i, size_t count) { return uint64_t{std::min(i, count - i)}; }},
    {"exponential", [](Random& r, size_t, size_t) { return r.next() >> r.below(64); }},
    {"one outlier",
     [](Random& r, size_t i, size_t) { return i == 7 ? ~uint64_t{0} : r.below(1000); }},
};

template <class T>
void expect_like_stable_sort(size_t count, uint64_t seed) {
  Random random(seed);
  for (const Pattern& pattern : patterns) {
    SCOPED_TRACE(testing::Message() << pattern.name << ", " << sizeof(T) << " bytes, count "
                                    << count << ", seed " << seed);
    std::vector<T> data(count);
    for (size_t i = 0; i < count; ++i) {
      const uint64_t other = std::is_same_v<T, Key128> ? random.next() >> random.below(64) : i;
      data[i] = make_item<T>(pattern.key(random, i, count), other);
    }
    std::vector<T> expected = data;
    std::stable_sort(expected.begin(), expected.end(),
                     [](const T& a, const T& b) { return less(a, b); });
    const T canary = make_item<T>(0x5a5a5a5a5a5a5a5a, 0xa5a5a5a5a5a5a5a5);
    data.push_back(canary);
    std::vector<T> spare(count + 1, canary);
    quick_sort(data.data(), count, spare.data());
    ASSERT_TRUE(count == 0 || std::memcmp(data.data(), expected.data(), count * sizeof(T)) == 0);
    ASSERT_EQ(std::memcmp(&data[count], &canary, sizeof(T)), 0) << "written past the end";
    ASSERT_EQ(std::memcmp(&spare[count], &canary, sizeof(T)), 0) << "written past the spare's end";
  }
}

template <class T>
class QuickSortTest : public testing::Test {};
using Types = testing::Types<uint32_t, uint64_t, KeyValue, Key128>;
TYPED_TEST_SUITE(QuickSortTest, Types);

TYPED_TEST(QuickSortTest, SortsLikeStableSort) {
  uint64_t seed = 1;
  for (size_t count :
       {0, 1, 2, 3, 100, 255, 256, 257, 300, 511, 512, 513, 1000, 4095, 4096, 4097, 10007, 70000})
    expect_like_stable_sort<TypeParam>(count, seed++);
}

template <class T>
void expect_partition(PartitionByPivot<T> partition, const std::string& tier) {
  Random random(5);
  for (size_t count = 0; count <= 200; ++count) {
    for (const bool from_below : {true, false}) {
      std::vector<T> a(count);
      for (size_t i = 0; i < count; ++i)
        a[i] = make_item<T>(random.below(9), std::is_same_v<T, Key128> ? random.below(3) : i);
      const T pivot = make_item<T>(random.below(10), random.below(3));
      std::vector<T> model = a;
      const auto middle = std::stable_partition(model.begin(), model.end(),
                                                [&](const T& item) { return less(item, pivot); });
      const auto expected = static_cast<size_t>(middle - model.begin());
      std::vector<T> b(count);
      std::vector<T>& below = from_below ? a : b;
      std::vector<T>& rest = from_below ? b : a;
      ASSERT_EQ(partition(a.data(), count, pivot, below.data(), rest.data()), expected)
          << tier << " count " << count;
      ASSERT_TRUE(expected == 0 ||
                  std::memcmp(below.data(), model.data(), expected * sizeof(T)) == 0);
      ASSERT_TRUE(expected == count || std::memcmp(rest.data(), model.data() + expected,
                                                   (count - expected) * sizeof(T)) == 0);
    }
  }
}

TYPED_TEST(QuickSortTest, PartitionsStablyOnEveryTier) {
  expect_partition<TypeParam>(portable::partition_by_pivot<TypeParam>, "portable");
#if defined(__x86_64__)
  if (os::cpu_tier() < os::CpuTier::avx2) GTEST_SKIP() << "no AVX2 on this processor";
  expect_partition<TypeParam>(avx2::partition_by_pivot<TypeParam>, "avx2");
  if (os::cpu_tier() < os::CpuTier::avx512) GTEST_SKIP() << "no AVX-512 on this processor";
  expect_partition<TypeParam>(avx512::partition_by_pivot<TypeParam>, "avx512");
#endif
}

}  // namespace
}  // namespace penstock::sorting
