// Test labels: first, templates

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <list>
#include <numeric>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "base/bits.h"
#include "base/random.h"
#include "base/trials.h"
#include "os/sanitizer.h"
#include "penstock/base.h"
#include "penstock/partition.h"
#include "sorting/partition/partition_oracle.h"

namespace penstock {
namespace {

PagePool open_pool(size_t page_bytes, uint64_t bytes, uint64_t mappings_max = 0) {
  auto pool = PagePool::open({.page_bytes = page_bytes,
                              .bytes_max = round_up(std::max<uint64_t>(bytes, 1), page_bytes),
                              .mappings_max = mappings_max});
  EXPECT_TRUE(pool) << pool.error().message();
  return *pool;
}

// Memory for `bytes` in this many buckets by this many threads.
uint64_t bytes_for(uint64_t bytes, uint32_t buckets, unsigned threads, size_t page_bytes) {
  return bytes + uint64_t{buckets} * page_bytes * 9 / 8 + uint64_t{buckets} * threads * 1024 +
         4 * page_bytes;
}

template <class T>
void expect_model(const RewiredPartitions<T>& parts, std::span<const T> items,
                  const RewiredPartitionOptions& options) {
  ASSERT_EQ(parts.items.size(), items.size());
  ASSERT_EQ(parts.offsets.front(), 0u);
  ASSERT_EQ(parts.offsets.back(), items.size());
  std::vector<std::vector<T>> model(parts.buckets());
  // The shares of a range are only about equal: the items themselves show their bucket.
  const bool is_about = std::holds_alternative<ByRange>(options.by);
  if (is_about) {
    uint64_t greatest = 0;
    for (uint32_t i = 0; i < parts.buckets(); ++i) {
      for (const T& item : parts.bucket(i)) {
        ASSERT_LE(std::abs(static_cast<int64_t>(bucket_of(options.by, item)) - int64_t{i}), 1);
        ASSERT_TRUE(i == 0 || rank_in(item) >= greatest || parts.bucket(i).empty());
      }
      for (const T& item : parts.bucket(i)) greatest = std::max(greatest, rank_in(item));
    }
    std::vector<T> all(parts.items.begin(), parts.items.end()), given(items.begin(), items.end());
    std::sort(all.begin(), all.end(), before<T>);
    std::sort(given.begin(), given.end(), before<T>);
    ASSERT_TRUE(all == given);
    return;
  }
  for (const T& item : items) {
    const uint32_t bucket = bucket_of(options.by, item);
    ASSERT_LT(bucket, parts.buckets());
    model[bucket].push_back(item);
  }
  for (uint32_t i = 0; i < parts.buckets(); ++i) {
    const std::span<const T> bucket = parts.bucket(i);
    ASSERT_EQ(bucket.size(), model[i].size()) << "bucket " << i;
    std::vector<T> got(bucket.begin(), bucket.end());
    if (!options.stable) {
      std::sort(got.begin(), got.end(), before<T>);
      std::sort(model[i].begin(), model[i].end(), before<T>);
    }
    ASSERT_TRUE(got == model[i]) << "bucket " << i;
  }
}

template <class T>
void partition_and_look(const PagePool& pool, std::span<const T> items,
                        const RewiredPartitionOptions& options) {
  SCOPED_TRACE(testing::Message() << items.size() << " items, by " << options.by.index() << ", "
                                  << options.threads << " threads, pages of " << pool.page_bytes());
  {
    const auto parts = rewired_partition<T>(pool, items, options);
    ASSERT_TRUE(parts) << parts.error().message();
    expect_model(*parts, items, options);
    const uint64_t pages = ceil_div(items.size_bytes(), pool.page_bytes());
    EXPECT_EQ(parts->stats.pages, pages);
    EXPECT_EQ(pool.pages_taken(), pages);
    EXPECT_EQ(parts->items.memory_bytes(), pages * pool.page_bytes());
    EXPECT_GE(parts->stats.pages_peak, pages);
  }
  EXPECT_EQ(pool.pages_taken(), 0u);
  EXPECT_EQ(pool.mappings(), 0u);
}

std::vector<PartitionBy> functions(unsigned bits_of_key) {
  std::vector<uint64_t> splitters;
  const uint64_t greatest = ~uint64_t{0} >> (64 - bits_of_key);
  for (uint64_t i = 1; i < 100; ++i) splitters.push_back(greatest / 150 * i);
  return {ByLowBits{5},
          ByHighBits{6},
          ByHighBits{.bits = 4, .key_bits = 20, .base = 1000},
          ByHighBits{.bits = 0},
          ByRange{.first = 1000, .last = greatest / 2, .buckets = 77},
          ByHash{.bits = 8, .seed = 3},
          BySplitters{splitters}};
}

template <class T>
class RewiredPartitionOf : public testing::Test {};
using ItemTypes = testing::Types<uint32_t, uint64_t, int32_t, KeyValue32, KeyValue64, Key128>;
TYPED_TEST_SUITE(RewiredPartitionOf, ItemTypes);

TYPED_TEST(RewiredPartitionOf, DoesWhatTheModelDoes) {
  using T = TypeParam;
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  constexpr size_t page_bytes = 4 * KiB;
  constexpr uint64_t page_items = page_bytes / sizeof(T);
  for (const PartitionBy& by : functions(key_bits<T>)) {
    for (const uint64_t count : {uint64_t{0}, uint64_t{1}, page_items - 1, page_items,
                                 page_items + 1, 3 * page_items + 5, random.below(80000)}) {
      constexpr Keys others[] = {Keys::few, Keys::equal, Keys::ends, Keys::skewed};
      for (const Keys keys : {Keys::uniform, others[random.below(4)]}) {
        const auto items = make_items<T>(count, keys, random.next());
        const unsigned threads = 1 + static_cast<unsigned>(random.below(4));
        for (const bool stable : {false, true}) {
          if (!tried()) continue;
          const RewiredPartitionOptions options{
              .by = by, .threads = stable ? 1 : threads, .stable = stable};
          const PagePool pool =
              open_pool(page_bytes, bytes_for(count * sizeof(T), 256, threads, page_bytes));
          partition_and_look<T>(pool, items, options);
          if (this->HasFatalFailure()) return;
        }
      }
    }
  }
}

TYPED_TEST(RewiredPartitionOf, DoesWhatTheModelDoesOnHugePages) {
  using T = TypeParam;
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const uint64_t count = (os::shadowed ? 4 : 9) * MiB / sizeof(T);
  const PagePool pool = open_pool(2 * MiB, bytes_for(count * sizeof(T), 16, 4, 2 * MiB));
  for (const unsigned threads : {1u, 2u, 3u, 4u}) {
    for (const Keys keys : {Keys::uniform, Keys::skewed}) {
      if (!tried()) continue;
      const auto items = make_items<T>(count, keys, seed + threads);
      partition_and_look<T>(pool, items, {.by = ByHash{.bits = 4}, .threads = threads});
      partition_and_look<T>(pool, items, {.by = ByLowBits{.bits = 1}, .threads = threads});
    }
  }
}

// ---- completing pages: sizes at and beside every border

TEST(RewiredPartition, CompletesBucketsOfAnyLengths) {
  constexpr size_t page_bytes = 4 * KiB;
  constexpr uint64_t page_items = page_bytes / sizeof(uint64_t);
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  const PagePool pool = open_pool(page_bytes, 4 * MiB);
  for (uint64_t round = 0; round < (os::shadowed ? 100 : trials(1500)); ++round) {
    std::vector<uint64_t> items;
    uint64_t number = 0;
    for (uint64_t bucket = 0; bucket < 16; ++bucket) {
      uint64_t length = random.below(4) * page_items;
      if (random.below(2) == 0) length += random.below(page_items / 3);
      if (random.below(3) == 0) length = random.below(5 * page_items);
      if (random.below(4) == 0) length += random.below(3);
      if (random.below(4) == 0) length -= std::min<uint64_t>(length, random.below(3));
      for (uint64_t i = 0; i < length; ++i) items.push_back(number++ << 4 | bucket);
    }
    std::shuffle(items.begin(), items.end(), std::mt19937_64(random.next()));
    const unsigned threads = 1 + static_cast<unsigned>(random.below(2));
    partition_and_look<uint64_t>(pool, items, {.by = ByLowBits{4}, .threads = threads});
    ASSERT_FALSE(HasFailure());
  }
}

// A bucket a little longer than its pages takes a page of the next one; never is more moved than
// filling every page would move.
TEST(RewiredPartition, CopiesTheSmallerPart) {
  constexpr size_t page_bytes = 64 * KiB;
  constexpr uint64_t page_items = page_bytes / sizeof(uint64_t);
  const PagePool pool = open_pool(page_bytes, 64 * MiB);
  std::vector<uint64_t> items;
  for (uint64_t i = 0; i < 3 * page_items + 10; ++i) {
    for (uint64_t bucket = 0; bucket < 16; ++bucket) items.push_back(i << 4 | bucket);
  }
  const auto parts = rewired_partition<uint64_t>(pool, items, {.by = ByLowBits{4}});
  ASSERT_TRUE(parts);
  expect_model<uint64_t>(*parts, items, {.by = ByLowBits{4}});
  // 15 borders, of 10, 20, ... items, each copied twice.
  EXPECT_EQ(parts->stats.copied_bytes, 2 * 10 * (15 * 16 / 2) * sizeof(uint64_t));
}

TEST(RewiredPartition, IsOneArrayAndAVector) {
  const PagePool pool = open_pool(4 * KiB, 16 * MiB);
  const auto items = make_items<uint64_t>(500000, Keys::uniform, 1);
  auto parts = rewired_partition<uint64_t>(pool, items, {.by = ByHighBits{8}});
  ASSERT_TRUE(parts);
  for (uint32_t i = 0; i < parts->buckets(); ++i) std::ranges::sort(parts->bucket(i));
  EXPECT_TRUE(std::ranges::is_sorted(parts->items));
  RewiredVector<uint64_t> sorted = std::move(parts->items);
  sorted.push_back(~uint64_t{0});
  EXPECT_TRUE(std::ranges::is_sorted(sorted));
  EXPECT_EQ(sorted.size(), items.size() + 1);
}

// ---- missing resources

TEST(RewiredPartition, ReportsAnEmptyPoolAndReturnsEverything) {
  const auto items = make_items<uint64_t>(100000, Keys::uniform, 2);
  for (const unsigned threads : {1u, 2u, 4u}) {
    for (const uint64_t pages : {10, 196, 200, 250}) {
      const PagePool pool = open_pool(4 * KiB, pages * 4 * KiB);
      const auto parts = rewired_partition<uint64_t>(
          pool, items, {.by = ByLowBits{8}, .threads = threads, .name = "orders"});
      ASSERT_FALSE(parts);
      EXPECT_EQ(parts.error().code, ErrorCode::out_of_memory);
      EXPECT_NE(parts.error().message().find("orders"), std::string::npos);
      EXPECT_EQ(pool.pages_taken(), 0u);
    }
    const PagePool pool = open_pool(4 * KiB, bytes_for(800000, 256, threads, 4 * KiB));
    partition_and_look<uint64_t>(pool, items, {.by = ByLowBits{8}, .threads = threads});
  }
}

// Needs no more than the header says: one page per bucket beside those that the items fill, and one
// mapping beside one per page.
TEST(RewiredPartition, NeedsOnlyTheDocumentedPagesAndMappings) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  const auto items = make_items<uint64_t>(100000, Keys::skewed, seed);
  const uint64_t bytes = items.size() * sizeof(uint64_t), pages = ceil_div(bytes, 4 * KiB);
  for (const bool stable : {false, true}) {
    const PagePool pool = open_pool(4 * KiB, bytes + 64 * 4 * KiB, pages + 1);
    partition_and_look<uint64_t>(pool, items, {.by = ByHighBits{6}, .stable = stable});
  }
  constexpr unsigned threads = 4;
  const PagePool pool =
      open_pool(4 * KiB, bytes + 64 * (4 * KiB + std::max<uint64_t>(512, threads * 256)));
  partition_and_look<uint64_t>(pool, items, {.by = ByHighBits{6}, .threads = threads});
}

TEST(RewiredPartition, ReportsThatMappingsAreUsedUpAndReturnsEverything) {
  const auto items = make_items<uint64_t>(100000, Keys::uniform, 2);
  const PagePool pool = open_pool(4 * KiB, 4 * MiB, 50);
  const auto parts = rewired_partition<uint64_t>(pool, items, {.by = ByLowBits{6}});
  ASSERT_FALSE(parts);
  EXPECT_EQ(parts.error().code, ErrorCode::out_of_mappings) << parts.error().message();
  EXPECT_EQ(pool.pages_taken(), 0u);
  EXPECT_EQ(pool.mappings(), 0u);
}

TEST(RewiredPartition, RefusesInvalidOptions) {
  EXPECT_EQ(RewiredPartitions<uint64_t>().buckets(), 0u);
  const PagePool pool = open_pool(4 * KiB, 1 * MiB);
  const std::vector<uint64_t> items(100);
  for (const RewiredPartitionOptions& options :
       {RewiredPartitionOptions{.threads = 0}, RewiredPartitionOptions{.threads = 2000},
        RewiredPartitionOptions{.threads = 2, .stable = true},
        RewiredPartitionOptions{.by = ByLowBits{40}},
        RewiredPartitionOptions{.by = ByRange{.buckets = 0}}})
    EXPECT_EQ(rewired_partition<uint64_t>(pool, items, options).error().code,
              ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace penstock
