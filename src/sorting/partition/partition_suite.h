#pragma once

// The tests that every method of partitioning has to pass: the library's own (partition_test.cc)
// and those in papers/.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/bits.h"
#include "base/random.h"
#include "base/trials.h"
#include "memory/pool/pool.h"
#include "os/memory.h"
#include "os/sanitizer.h"
#include "penstock/partition.h"
#include "sorting/partition/partition_oracle.h"
#include "sorting/partition/pass.h"

namespace penstock {
namespace {

constexpr uint64_t seed = 20261121;

template <class T>
std::vector<std::vector<T>> model_of(std::span<const T> items, const PartitionBy& by,
                                     uint32_t buckets) {
  std::vector<std::vector<T>> model(buckets);
  for (const T& item : items) {
    const uint32_t bucket = bucket_of(by, item);
    EXPECT_LT(bucket, buckets);
    model[bucket].push_back(item);
  }
  return model;
}

// Compares byte by byte, so that a NaN equals itself.
template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class T>
void expect_model(const Partitions<T>& parts, std::span<const T> items,
                  const PartitionOptions& options) {
  auto model = model_of(items, options.by, parts.buckets());
  // The shares of a range are only about equal: keys may be in the neighbouring bucket.
  if (std::holds_alternative<ByRange>(options.by)) {
    uint64_t count = 0, greatest = 0;
    for (uint32_t i = 0; i < parts.buckets(); ++i) {
      for (const T& item : parts.bucket(i)) {
        const uint32_t ideal = bucket_of(options.by, item);
        ASSERT_LE(std::max(ideal, i) - std::min(ideal, i), 1u);
        ASSERT_GE(rank_in(item), i == 0 ? 0 : greatest);
      }
      for (const T& item : parts.bucket(i)) greatest = std::max(greatest, rank_in(item));
      count += parts.bucket(i).size();
    }
    std::vector<T> all, expected(items.begin(), items.end());
    for (uint32_t i = 0; i < parts.buckets(); ++i)
      all.insert(all.end(), parts.bucket(i).begin(), parts.bucket(i).end());
    std::sort(all.begin(), all.end(), before<T>);
    std::sort(expected.begin(), expected.end(), before<T>);
    ASSERT_TRUE(same(all, expected)) << count;
    return;
  }
  for (uint32_t i = 0; i < parts.buckets(); ++i) {
    std::vector<T> bucket(parts.bucket(i).begin(), parts.bucket(i).end());
    if (!options.stable) {
      std::sort(bucket.begin(), bucket.end(), before<T>);
      std::sort(model[i].begin(), model[i].end(), before<T>);
    }
    ASSERT_EQ(bucket.size(), model[i].size()) << "bucket " << i;
    ASSERT_TRUE(same(bucket, model[i])) << "bucket " << i;
  }
}

enum class Stable { with_one_thread, with_several, always };
struct MethodCase {
  std::string name;
  Stable stable = Stable::with_one_thread;
  const partition_internal::Method* method = nullptr;  // nullptr: the public calls
};
inline std::string name_of_method(const testing::TestParamInfo<MethodCase>& info) {
  return info.param.name;
}

class PartitionTest : public testing::TestWithParam<MethodCase> {
 protected:
  PartitionOptions options(PartitionBy by, unsigned threads = 1, bool stable = false) const {
    return {.by = std::move(by),
            .threads = threads,
            .stable = stable || GetParam().stable == Stable::always};
  }
  bool is_private() const { return GetParam().stable != Stable::with_one_thread; }
  bool can_be_stable(unsigned threads) const { return threads == 1 || is_private(); }

  template <class T>
  Result<Partitions<T>> run(const BlockPool* pool, std::span<const T> items,
                            const PartitionOptions& how) const {
    using partition_internal::Input;
    using partition_internal::WordOf;
    if (GetParam().method != nullptr)
      return partition_by<T>(*GetParam().method, pool,
                             Input<WordOf<T>>(partition_internal::words_of(items)), how);
    return pool != nullptr ? partition(*pool, items, how) : partition(items, how);
  }
  template <class T>
  Result<Partitions<T>> run_in_place(const BlockPool& pool, std::vector<BlockPool::Block> blocks,
                                     uint64_t count, const PartitionOptions& how) const {
    using partition_internal::Input;
    using partition_internal::WordOf;
    if (GetParam().method == nullptr)
      return partition_in_place<T>(pool, std::move(blocks), count, how);
    auto input = Input<WordOf<T>>::in_place(pool, std::move(blocks), count, how.name);
    if (!input) return std::unexpected(input.error());
    return partition_by<T>(*GetParam().method, &pool, std::move(*input), how);
  }

  static BlockPool open_pool(size_t block_bytes, uint32_t blocks) {
    auto pool = BlockPool::open({.block_bytes = block_bytes, .blocks = blocks});
    EXPECT_TRUE(pool) << pool.error().message();
    return *pool;
  }

  template <class T>
  void check(std::span<const T> items, const PartitionOptions& how, size_t block_bytes = 64 * KiB) {
    const BlockPool pool = open_pool(block_bytes, 2000);
    {
      auto parts = run(&pool, items, how);
      ASSERT_TRUE(parts) << parts.error().message();
      expect_model(*parts, items, how);
      EXPECT_EQ(pool.blocks_free(), pool.blocks() - parts->stats().blocks);
    }
    EXPECT_EQ(pool.blocks_free(), pool.blocks());
  }

  template <class T>
  void check_sizes() {
    const size_t block_items = 4 * KiB / sizeof(T);
    uint64_t at_seed = seed;
    for (size_t count : {size_t{0}, size_t{1}, size_t{15}, size_t{16}, size_t{17}, size_t{255},
                         size_t{256}, size_t{1023}, block_items - 1, block_items, block_items + 1,
                         4 * block_items, 9 * block_items + 5}) {
      for (const unsigned threads : {1u, 2u, 3u}) {
        for (const unsigned bits : {3u, 8u}) {
          if (!tried()) continue;
          SCOPED_TRACE("items " + std::to_string(count) + ", threads " + std::to_string(threads) +
                       ", bits " + std::to_string(bits) + ", seed " + std::to_string(at_seed));
          // One item behind an aligned place: the input need not be aligned.
          const auto items = make_items<T>(count + 1, Keys::uniform, at_seed++);
          check<T>(std::span(items).subspan(1),
                   options(ByLowBits{bits}, threads, can_be_stable(threads)), 4 * KiB);
          if (HasFatalFailure()) return;
        }
      }
    }
  }

  template <class T>
  void check_functions() {
    std::vector<uint64_t> splitters;
    Random random(seed);
    constexpr uint64_t key_max = ~uint64_t{0} >> (64 - key_bits<T>);
    for (int i = 0; i < 100; ++i) splitters.push_back(random.next() & key_max);
    splitters.push_back(splitters[7]);  // an empty bucket
    splitters.push_back(key_max);
    std::sort(splitters.begin(), splitters.end());
    std::vector<PartitionBy> all = {
        ByLowBits{10},
        ByHighBits{8},
        ByHighBits{0},
        ByRange{0, key_max, 77},
        ByRange{key_max / 7, key_max / 3, 300},
        ByRange{5, 6, 10},
        ByRange{0, 0, 3},
        ByHash{7, 0},
        ByHash{3, 0x12345},
        BySplitters{},
        BySplitters{{key_max / 2}},
        BySplitters{{1, 2, ~uint64_t{0}}},
        BySplitters{splitters},
    };
    if (!std::is_floating_point_v<T> && key_bits<T> >= 32)
      all.push_back(ByHighBits{.bits = 6, .key_bits = 20, .base = 1000});
    if constexpr (std::is_signed_v<T> && std::is_integral_v<T>)
      all.push_back(ByHighBits{.bits = 4, .key_bits = 7, .base = rank_in(static_cast<T>(-60))});
    size_t index = 0;
    for (const PartitionBy& by : all) {
      for (const Keys keys : {Keys::uniform, Keys::few, Keys::equal, Keys::ends}) {
        if (!tried()) continue;
        SCOPED_TRACE("function " + std::to_string(index) + ", keys " +
                     std::to_string(static_cast<int>(keys)) + ", seed " + std::to_string(seed));
        const auto items = make_items<T>(10'007, keys, seed);
        const unsigned threads = index % 2 == 0 ? 1 : 2;
        check<T>(items, options(by, threads, can_be_stable(threads)), 16 * KiB);
        if (HasFatalFailure()) return;
      }
      ++index;
    }
  }
};

TEST_P(PartitionTest, SizesAroundLinesAndBlocksU32) {
  check_sizes<uint32_t>();
}
TEST_P(PartitionTest, SizesAroundLinesAndBlocksU64) {
  check_sizes<uint64_t>();
}
TEST_P(PartitionTest, SizesAroundLinesAndBlocksKeyValue32) {
  check_sizes<KeyValue32>();
}
TEST_P(PartitionTest, SizesAroundLinesAndBlocksKeyValue64) {
  check_sizes<KeyValue64>();
}

TEST_P(PartitionTest, EveryBucketFunctionU32) {
  check_functions<uint32_t>();
}
TEST_P(PartitionTest, EveryBucketFunctionU64) {
  check_functions<uint64_t>();
}
TEST_P(PartitionTest, EveryBucketFunctionKeyValue32) {
  check_functions<KeyValue32>();
}
TEST_P(PartitionTest, EveryBucketFunctionKeyValue64) {
  check_functions<KeyValue64>();
}

TEST_P(PartitionTest, SizesAroundLinesAndBlocksU8) {
  check_sizes<uint8_t>();
}
TEST_P(PartitionTest, SizesAroundLinesAndBlocksI16) {
  check_sizes<int16_t>();
}
TEST_P(PartitionTest, SizesAroundLinesAndBlocksKey128) {
  check_sizes<Key128>();
}

TEST_P(PartitionTest, EveryBucketFunctionI8) {
  check_functions<int8_t>();
}
TEST_P(PartitionTest, EveryBucketFunctionU16) {
  check_functions<uint16_t>();
}
TEST_P(PartitionTest, EveryBucketFunctionI32) {
  check_functions<int32_t>();
}
TEST_P(PartitionTest, EveryBucketFunctionI64) {
  check_functions<int64_t>();
}
TEST_P(PartitionTest, EveryBucketFunctionF32) {
  check_functions<float>();
}
TEST_P(PartitionTest, EveryBucketFunctionF64) {
  check_functions<double>();
}
TEST_P(PartitionTest, EveryBucketFunctionKey128) {
  check_functions<Key128>();
}

TEST_P(PartitionTest, SeveralThreadsTakeJobsOfALargeInput) {
  const uint64_t count = 1'200'003;
  const auto items = make_items<uint64_t>(count, Keys::uniform, seed);
  for (const unsigned threads : {1u, 2u, 3u}) {
    for (const bool stable : {false, true}) {
      if (stable && !can_be_stable(threads)) continue;
      SCOPED_TRACE(threads);
      check<uint64_t>(items, options(ByHash{6}, threads, stable));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(PartitionTest, SkewedKeysFromSeveralThreads) {
  const auto items = make_items<KeyValue32>(900'001, Keys::few, seed);
  check<KeyValue32>(items, options(ByHighBits{8}, 3), 16 * KiB);
}

TEST_P(PartitionTest, BucketsAreReleasedOneByOne) {
  const BlockPool pool = open_pool(64 * KiB, 1000);
  const auto items = make_items<uint64_t>(300'000, Keys::uniform, seed);
  auto parts = run(&pool, std::span<const uint64_t>(items), options(ByLowBits{4}));
  ASSERT_TRUE(parts) << parts.error().message();
  uint32_t free = pool.blocks_free();
  for (uint32_t i = 0; i < parts->buckets(); ++i) {
    const auto blocks =
        static_cast<uint32_t>(ceil_div(parts->bucket(i).size_bytes(), uint64_t{64 * KiB}));
    parts->release(i);
    EXPECT_TRUE(parts->bucket(i).empty());
    free += blocks;
    EXPECT_EQ(pool.blocks_free(), free);
  }
  EXPECT_EQ(pool.blocks_free(), pool.blocks());
}

TEST_P(PartitionTest, WithoutAPoolItOpensItsOwn) {
  const auto items = make_items<uint32_t>(1'000'000, Keys::uniform, seed);
  const auto how = options(ByHighBits{5}, 2);
  auto parts = run(nullptr, std::span<const uint32_t>(items), how);
  ASSERT_TRUE(parts) << parts.error().message();
  expect_model(*parts, std::span<const uint32_t>(items), how);
}

// The pool has room for the input and the unused parts of blocks, not for two copies.
TEST_P(PartitionTest, InPlaceNeedsNoSecondCopy) {
  constexpr size_t block_bytes = 16 * KiB;
  constexpr size_t block_items = block_bytes / sizeof(uint64_t);
  for (const unsigned threads : {1u, 2u, 3u}) {
    SCOPED_TRACE(threads);
    const auto items = make_items<uint64_t>(400 * block_items - 77, Keys::uniform, seed + threads);
    const uint32_t ends = (1u << 5) * (is_private() ? threads : 2) + threads;
    const BlockPool pool = open_pool(block_bytes, 400 + ends);
    std::vector<BlockPool::Block> blocks;
    for (size_t at = 0; at < items.size(); at += block_items) {
      blocks.push_back(pool.take());
      std::memcpy(blocks.back().bytes().data(), items.data() + at,
                  std::min(block_items, items.size() - at) * sizeof(uint64_t));
    }
    const auto how = options(ByLowBits{5}, threads, can_be_stable(threads));
    {
      auto parts = run_in_place<uint64_t>(pool, std::move(blocks), items.size(), how);
      ASSERT_TRUE(parts) << parts.error().message();
      expect_model(*parts, std::span<const uint64_t>(items), how);
    }
    EXPECT_EQ(pool.blocks_free(), pool.blocks());
  }
}

TEST_P(PartitionTest, APoolThatIsTooSmallIsRefused) {
  const BlockPool pool = open_pool(64 * KiB, 20);
  const auto items = make_items<uint64_t>(200'000, Keys::uniform, seed);
  const auto parts = run(&pool, std::span<const uint64_t>(items), options(ByLowBits{4}));
  ASSERT_FALSE(parts);
  EXPECT_EQ(parts.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(pool.blocks_free(), pool.blocks());
}

// Together they could need more than the pool has: one may be refused, but nothing else may fail.
TEST_P(PartitionTest, TwoPartitionsShareAPool) {
  constexpr size_t block_bytes = 16 * KiB;
  const auto items = make_items<uint64_t>(1 << 20, Keys::uniform, seed);
  const auto how = options(ByHash{6});
  const BlockPool pool = open_pool(block_bytes, (8 << 20) / block_bytes + 64 + 100);
  for (int round = 0; round < 5; ++round) {
    const auto work = [&] {
      auto parts = run(&pool, std::span<const uint64_t>(items), how);
      if (!parts) {
        EXPECT_EQ(parts.error().code, ErrorCode::out_of_memory) << parts.error().message();
        return;
      }
      uint64_t count = 0;
      for (uint32_t i = 0; i < parts->buckets(); ++i) count += parts->bucket(i).size();
      EXPECT_EQ(count, items.size());
    };
    std::jthread other(work);
    work();
    other.join();
    ASSERT_EQ(pool.blocks_free(), pool.blocks());
  }
}

TEST_P(PartitionTest, OutOfMappingsIsAnErrorForEveryMechanism) {
  if (os::shadowed) GTEST_SKIP() << "a sanitizer has mappings of its own";
  uint64_t mappings_max = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> mappings_max;
  if (mappings_max == 0 || mappings_max > 100'000)
    GTEST_SKIP() << "vm.max_map_count is " << mappings_max;
  constexpr uint64_t block_items = 4 * KiB / sizeof(uint64_t);
  const auto blocks = static_cast<uint32_t>(mappings_max + 1000);
  const auto items = make_items<uint64_t>(blocks * block_items, Keys::uniform, seed);
  for (const Mechanism mechanism : {Mechanism::mremap, Mechanism::uffd_move, Mechanism::shared}) {
    SCOPED_TRACE(static_cast<int>(mechanism));
    const auto pool =
        BlockPool::open({.block_bytes = 4 * KiB, .blocks = blocks + 1000, .mechanism = mechanism});
    if (!pool && pool.error().code == ErrorCode::unsupported) continue;
    ASSERT_TRUE(pool) << pool.error().message();
    {
      const auto parts = run(&*pool, std::span<const uint64_t>(items), options(ByHash{6}));
      if (!parts) {
        EXPECT_EQ(parts.error().code, ErrorCode::out_of_mappings) << parts.error().message();
      } else {
        EXPECT_EQ(mechanism, Mechanism::uffd_move);  // the others map each block
      }
    }
    EXPECT_EQ(pool->blocks_free(), pool->blocks());
  }
}

TEST_P(PartitionTest, WastesNoMoreThanABlockPerBucketAndOwner) {
  constexpr size_t block_bytes = 64 * KiB;
  const auto items = make_items<uint64_t>(1'000'000, Keys::uniform, seed);
  const uint64_t full = items.size() * sizeof(uint64_t) / block_bytes;
  auto how = options(ByHash{6}, 3);
  how.block_bytes = block_bytes;
  auto parts = run(nullptr, std::span<const uint64_t>(items), how);
  ASSERT_TRUE(parts) << parts.error().message();
  EXPECT_LE(parts->stats().blocks, full + 64);
  EXPECT_LE(parts->stats().blocks_peak, full + 64 * (is_private() ? 3 : 1) + 64 / 8);
}

// `partitioned` distributes the items to 2^14 buckets.
template <class Run>
void expect_little_memory(const Run& partitioned) {
  const auto items = make_items<uint64_t>(1 << 17, Keys::uniform, seed);  // 64 bytes a bucket
  for (const unsigned threads : {1u, 2u}) {
    const uint64_t before = os::resident_memory().bytes;
    auto parts = partitioned(std::span<const uint64_t>(items),
                             PartitionOptions{.by = ByHash{14}, .threads = threads});
    ASSERT_TRUE(parts) << parts.error().message();
    const uint64_t after = os::resident_memory().bytes;
    // A page for each bucket; a block of 64 KiB each would be 1 GiB.
    EXPECT_LE(parts->stats().blocks, 1u << 14);
    EXPECT_LE(after - std::min(before, after), 200 * MiB);
  }
}

}  // namespace
}  // namespace penstock
