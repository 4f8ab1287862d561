// Tests every type of items on every path: each call of sort.h and partition.h, with few items and many, one
// thread and several, against the standard library.

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "base/random.h"
#include "penstock/partition.h"
#include "penstock/region.h"
#include "penstock/rewire.h"
#include "penstock/sort.h"
#include "sorting/partition/partition_oracle.h"

namespace penstock {
namespace {

int cases = 0;

enum class Color : uint16_t { red };
enum Plain : int { plain };

template <class T>
T any_item(uint64_t key, uint64_t index) {
  if constexpr (std::is_enum_v<T>) {
    return static_cast<T>(static_cast<std::underlying_type_t<T>>(key));
  } else {
    return item_of<T>(key, index);
  }
}

template <class T>
std::vector<T> make_items(size_t count) {
  Random random(count + sizeof(T));
  std::vector<T> items(count);
  for (size_t i = 0; i < count; ++i) items[i] = any_item<T>(random.next(), i);
  return items;
}

template <class T>
bool less_in(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, Key128>) {
    return a.high != b.high ? a.high < b.high : a.low < b.low;
  } else if constexpr (requires { a.key; }) {
    return a.key < b.key;
  } else if constexpr (std::is_floating_point_v<T>) {
    return rank_in(a) < rank_in(b);
  } else {
    return a < b;
  }
}
template <class T>
bool same(std::span<const T> a, std::span<const T> b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size_bytes()) == 0);
}
// All items as bytes, sorted, so that their order does not matter.
template <class T>
std::vector<T> bag(std::span<const T> items) {
  std::vector<T> all(items.begin(), items.end());
  std::sort(all.begin(), all.end(), before<T>);
  return all;
}

// A sum over the items' bytes that does not depend on their order.
template <class T>
uint64_t sum_of(std::span<const T> items) {
  uint64_t sum = 0;
  for (const T& item : items) {
    uint64_t words[2] = {};
    std::memcpy(words, &item, sizeof(T));
    sum += mix64(words[0] ^ mix64(words[1]));
  }
  return sum;
}

// Expects the order of `sorted`; equal items may differ in their values.
template <class T>
bool in_order(std::span<const T> items, std::span<const T> sorted) {
  if constexpr (requires(T item) { item.value; }) {
    return std::equal(items.begin(), items.end(), sorted.begin(), sorted.end(),
                      [](const T& a, const T& b) { return a.key == b.key; });
  } else {
    return same<T>(items, sorted);
  }
}

// Enough items for a distribution through memory, for a type of the library's own.
template <class T>
std::vector<size_t> counts() {
  std::vector<size_t> all = {0, 1, 3, 100, 5'000};
  if (sizeof(T) >= 2 && Sortable<T>) all.push_back(40'000);
  if (sizeof(T) >= 4 && Sortable<T>) all.push_back(4608 * KiB / sizeof(T));
  return all;
}

template <class T>
class SortableTypes : public testing::Test {};
using AllSortable =
    testing::Types<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t, float,
                   double, KeyValue32, KeyValue64, Key128, long long, unsigned long long, long,
                   char, char8_t, char16_t, char32_t, wchar_t, std::byte, Color, Plain>;
TYPED_TEST_SUITE(SortableTypes, AllSortable);

TYPED_TEST(SortableTypes, OnEveryPathOfSort) {
  using T = TypeParam;
  cases = 0;
  for (const size_t count : counts<T>()) {
    const std::vector<T> in = make_items<T>(count);
    const uint64_t sum = sum_of<T>(in);
    std::vector<T> sorted = in;
    std::stable_sort(sorted.begin(), sorted.end(), less_in<T>);
    const size_t first = count / 3;
    const std::span<const T> least = std::span<const T>(sorted).first(first);
    for (const unsigned threads : {1u, 2u}) {
      for (const bool stable : {false, true}) {
        SCOPED_TRACE(std::to_string(count) + " items, threads " + std::to_string(threads) +
                     (stable ? ", stable" : ""));
        const SortOptions options = {.threads = threads, .stable = stable};
        const auto is_right = [&](std::span<const T> out) {
          ++cases;
          return sum_of<T>(out) == sum &&
                 (stable ? same<T>(out, sorted) : in_order<T>(out, sorted));
        };
        std::vector<T> out = in;
        ASSERT_TRUE(penstock::sort(out, options));
        EXPECT_TRUE(is_right(out));
        std::fill(out.begin(), out.end(), T{});
        ASSERT_TRUE(penstock::sort(in, out, options));
        EXPECT_TRUE(is_right(out));
        if (stable) continue;
        out = in;
        ASSERT_TRUE(penstock::partial_sort(out, first, options));
        EXPECT_TRUE(in_order<T>(std::span<const T>(out).first(first), least));
        EXPECT_EQ(sum_of<T>(out), sum);
        std::vector<T> top(first);
        ASSERT_TRUE(penstock::top_k(in, top, options));
        EXPECT_TRUE(in_order<T>(top, least));
        std::vector<uint64_t> order(count);
        ASSERT_TRUE(penstock::argsort(in, order, options));
        for (size_t i = 0; i < count; ++i) out[i] = in[order[i]];
        EXPECT_TRUE(same<T>(out, sorted));
        cases += 3;
      }
    }
  }
  std::printf("%d cases\n", cases);
}

template <class T>
class PartitionTypes : public testing::Test {};
using AllPartitioned =
    testing::Types<uint8_t, int8_t, uint16_t, int16_t, uint32_t, int32_t, uint64_t, int64_t, float,
                   double, KeyValue32, KeyValue64, Key128>;
TYPED_TEST_SUITE(PartitionTypes, AllPartitioned);

template <class T, class Parts>
void expect_parts(Parts& parts, std::span<const T> items, unsigned bits, bool stable) {
  std::vector<std::vector<T>> model(size_t{1} << bits);
  for (const T& item : items) model[bits_in(item) % model.size()].push_back(item);
  ASSERT_EQ(parts.buckets(), model.size());
  for (uint32_t i = 0; i < parts.buckets(); ++i) {
    const std::span<const T> bucket = parts.bucket(i);
    ASSERT_TRUE(stable ? same<T>(bucket, model[i]) : same<T>(bag<T>(bucket), bag<T>(model[i])))
        << "bucket " << i;
  }
  ++cases;
}

TYPED_TEST(PartitionTypes, OnEveryPathOfPartition) {
  using T = TypeParam;
  cases = 0;
  constexpr size_t block_bytes = 4 * KiB;
  const auto pool = BlockPool::open({.block_bytes = block_bytes, .blocks = 60'000});
  const auto pages = PagePool::open({.page_bytes = block_bytes, .bytes_max = 256 * MiB});
  ASSERT_TRUE(pool && pages);
  for (const size_t count : {size_t{0}, size_t{3}, size_t{100}, size_t{1'000}, size_t{20'000}}) {
    const std::vector<T> in = make_items<T>(count);
    const std::span<const T> items(in);
    for (const unsigned bits : {2u, 8u, 14u}) {
      if (bits > key_bits<T>) continue;
      for (const unsigned threads : {1u, 2u}) {
        for (const bool stable : {false, true}) {
          SCOPED_TRACE(std::to_string(count) + " items, 2^" + std::to_string(bits) + ", threads " +
                       std::to_string(threads) + (stable ? ", stable" : ""));
          const PartitionOptions options = {
              .by = ByLowBits{bits}, .threads = threads, .stable = stable};
          auto own = partition(items, options);
          ASSERT_TRUE(own) << own.error().message();
          expect_parts<T>(*own, items, bits, stable);
          auto given = partition(*pool, items, options);
          ASSERT_TRUE(given) << given.error().message();
          expect_parts<T>(*given, items, bits, stable);
          std::vector<BlockPool::Block> blocks;
          for (size_t at = 0; at < items.size_bytes(); at += block_bytes) {
            blocks.push_back(pool->take());
            std::memcpy(blocks.back().bytes().data(),
                        reinterpret_cast<const std::byte*>(in.data()) + at,
                        std::min(block_bytes, items.size_bytes() - at));
          }
          auto placed = partition_in_place<T>(*pool, std::move(blocks), count, options);
          ASSERT_TRUE(placed) << placed.error().message();
          expect_parts<T>(*placed, items, bits, stable);
          if (stable && threads > 1) continue;
          auto rewired = rewired_partition(
              *pages, items, {.by = ByLowBits{bits}, .threads = threads, .stable = stable});
          ASSERT_TRUE(rewired) << rewired.error().message();
          expect_parts<T>(*rewired, items, bits, stable);
          if (this->HasFatalFailure()) return;
        }
      }
    }
  }
  std::printf("%d cases\n", cases);
}

}  // namespace
}  // namespace penstock
