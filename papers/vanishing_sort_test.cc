#include "papers/vanishing_sort.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "penstock/base.h"

namespace penstock::papers {
namespace {

template <class T>
T item_of(uint64_t bits) {
  if constexpr (std::is_same_v<T, KeyValue64>) {
    return {bits % 1000, bits};
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(static_cast<int64_t>(bits)) / 3;
  } else {
    return static_cast<T>(bits);
  }
}

template <class T>
void check(size_t count, bool descending) {
  SCOPED_TRACE(std::to_string(count) + " items of " + std::to_string(sizeof(T)) + " bytes");
  auto pool =
      BlockPool::open({.block_bytes = 64 * KiB,
                       .blocks = static_cast<uint32_t>(count * sizeof(T) / (64 * KiB)) + 1100});
  ASSERT_TRUE(pool);
  auto array = VanishingArray::open(*pool, {.bytes = count * sizeof(T) + 1});
  ASSERT_TRUE(array);
  Random random(count);
  std::vector<T> expected(count);
  for (T& item : expected) item = item_of<T>(random.next());
  std::copy(expected.begin(), expected.end(), array->begin<T>());
  auto sorted = sort_vanishing<T>(*pool, *array, count, descending);
  ASSERT_TRUE(sorted) << sorted.error().message();
  std::stable_sort(expected.begin(), expected.end(), [&](const T& a, const T& b) {
    if constexpr (std::is_same_v<T, KeyValue64>) {
      return descending ? a.key > b.key : a.key < b.key;
    } else {
      return descending ? a > b : a < b;
    }
  });
  const T* items = array->begin<T>();
  for (size_t i = 0; i < count; ++i) {
    const T item = items[i];
    ASSERT_EQ(std::memcmp(&item, &expected[i], sizeof(T)), 0) << "item " << i;
  }
  array->clear();
  EXPECT_EQ(pool->blocks_free(), pool->blocks());
}

TEST(VanishingSort, SortsWhatWasWritten) {
  for (size_t count : {0, 1, 1000, 300'000, 1'500'000}) {
    check<uint64_t>(count, false);
    check<uint32_t>(count, true);
    check<int64_t>(count, true);
    check<double>(count, false);
    check<KeyValue64>(count, true);
  }
}

TEST(VanishingSort, RefusesAPoolThatIsTooSmallBeforeItReads) {
  auto pool = BlockPool::open({.block_bytes = 64 * KiB, .blocks = 40});
  ASSERT_TRUE(pool);
  auto array = VanishingArray::open(*pool, {.bytes = 2 * MiB});
  ASSERT_TRUE(array);
  auto* keys = array->begin<uint64_t>();
  for (uint64_t i = 0; i < 200'000; ++i) keys[i] = 200'000 - i;
  auto sorted = sort_vanishing<uint64_t>(*pool, *array, 200'000);
  ASSERT_FALSE(sorted);
  EXPECT_EQ(sorted.error().code, ErrorCode::out_of_memory);
  for (uint64_t i = 0; i < 200'000; ++i) ASSERT_EQ(keys[i], 200'000 - i);
}

}  // namespace
}  // namespace penstock::papers
