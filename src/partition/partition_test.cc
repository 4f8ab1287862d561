#include "penstock/partition.h"

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
#include "os/limits.h"
#include "os/memory.h"
#include "os/sanitizer.h"
#include "partition/partition_oracle.h"
#include "pool/pool.h"

namespace penstock {
namespace {

constexpr uint64_t seed = 20261121;

enum class Keys { uniform, few, equal, ends };

template <class T>
std::vector<T> make_items(uint64_t count, Keys keys, uint64_t from_seed) {
  Random random(from_seed);
  std::vector<T> items(count);
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t key = random.next();
    if (keys == Keys::few) key = mix64(key % 5);
    if (keys == Keys::equal) key = 0x1234567890abcdef;
    if (keys == Keys::ends) key = random.below(2) == 0 ? key % 3 : ~(key % 3);
    items[i] = item_of<T>(key, i);
  }
  return items;
}

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

template <class T>
void expect_model(const Partitions<T>& parts, std::span<const T> items,
                  const PartitionOptions& options) {
  auto model = model_of(items, options.by, parts.buckets());
  // The shares of a range are only about equal: keys may have gone to the neighbour.
  if (std::holds_alternative<ByRange>(options.by)) {
    uint64_t count = 0, greatest = 0;
    for (uint32_t i = 0; i < parts.buckets(); ++i) {
      for (const T& item : parts.bucket(i)) {
        const uint32_t ideal = bucket_of(options.by, item);
        ASSERT_LE(std::max(ideal, i) - std::min(ideal, i), 1u);
        ASSERT_GE(key_of(item), i == 0 ? 0 : greatest);
      }
      for (const T& item : parts.bucket(i)) greatest = std::max(greatest, key_of(item));
      count += parts.bucket(i).size();
    }
    std::vector<T> all, expected(items.begin(), items.end());
    for (uint32_t i = 0; i < parts.buckets(); ++i)
      all.insert(all.end(), parts.bucket(i).begin(), parts.bucket(i).end());
    std::sort(all.begin(), all.end(), before<T>);
    std::sort(expected.begin(), expected.end(), before<T>);
    ASSERT_TRUE(all == expected) << count;
    return;
  }
  for (uint32_t i = 0; i < parts.buckets(); ++i) {
    std::vector<T> bucket(parts.bucket(i).begin(), parts.bucket(i).end());
    if (!options.stable) {
      std::sort(bucket.begin(), bucket.end(), before<T>);
      std::sort(model[i].begin(), model[i].end(), before<T>);
    }
    ASSERT_EQ(bucket.size(), model[i].size()) << "bucket " << i;
    ASSERT_TRUE(bucket == model[i]) << "bucket " << i;
  }
}

struct Way {
  PartitionMethod method;
  RingWrap wrap = RingWrap::mask;
};
std::string name_of_way(const Way& way) {
  std::string name = name_of(way.method);
  if (way.method == PartitionMethod::private_rings)
    name += way.wrap == RingWrap::mask      ? "_mask"
            : way.wrap == RingWrap::handler ? "_handler"
                                            : "_conditional";
  return name;
}

class PartitionTest : public testing::TestWithParam<Way> {
 protected:
  PartitionOptions options(PartitionBy by, unsigned threads = 1, bool stable = false) const {
    return {.by = std::move(by),
            .method = GetParam().method,
            .threads = threads,
            .stable = stable,
            .wrap = GetParam().wrap};
  }
  bool is_private() const {
    return GetParam().method == PartitionMethod::private_streams ||
           GetParam().method == PartitionMethod::private_rings;
  }
  bool can_be_stable(unsigned threads) const { return threads == 1 || is_private(); }

  static BlockPool open_pool(size_t block_bytes, uint32_t blocks) {
    auto pool = BlockPool::open({.block_bytes = block_bytes, .blocks = blocks});
    EXPECT_TRUE(pool) << pool.error().message();
    return *pool;
  }

  template <class T>
  void check(std::span<const T> items, const PartitionOptions& how, size_t block_bytes = 64 * KiB) {
    const BlockPool pool = open_pool(block_bytes, 2000);
    {
      auto parts = partition(pool, items, how);
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
    const uint64_t key_max = key_bits<T> == 64 ? ~uint64_t{0} : 0xffffffff;
    for (int i = 0; i < 100; ++i) splitters.push_back(random.next() & key_max);
    splitters.push_back(splitters[7]);  // an empty bucket
    splitters.push_back(key_max);
    std::sort(splitters.begin(), splitters.end());
    const PartitionBy all[] = {
        ByLowBits{10},
        ByHighBits{8},
        ByHighBits{0},
        ByHighBits{.bits = 6, .key_bits = 20, .base = 1000},
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
    size_t index = 0;
    for (const PartitionBy& by : all) {
      for (const Keys keys : {Keys::uniform, Keys::few, Keys::equal, Keys::ends}) {
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
  auto parts = partition(pool, std::span<const uint64_t>(items), options(ByLowBits{4}));
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
  auto parts = partition(std::span<const uint32_t>(items), how);
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
      auto parts = partition_in_place<uint64_t>(pool, std::move(blocks), items.size(), how);
      ASSERT_TRUE(parts) << parts.error().message();
      expect_model(*parts, std::span<const uint64_t>(items), how);
    }
    EXPECT_EQ(pool.blocks_free(), pool.blocks());
  }
}

TEST_P(PartitionTest, APoolThatIsTooSmallIsRefused) {
  const BlockPool pool = open_pool(64 * KiB, 20);
  const auto items = make_items<uint64_t>(200'000, Keys::uniform, seed);
  const auto parts = partition(pool, std::span<const uint64_t>(items), options(ByLowBits{4}));
  ASSERT_FALSE(parts);
  EXPECT_EQ(parts.error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(pool.blocks_free(), pool.blocks());
}

// Together they could need more than the pool has: one of them may be refused, and nothing else.
TEST_P(PartitionTest, TwoPartitionsShareAPool) {
  constexpr size_t block_bytes = 16 * KiB;
  const auto items = make_items<uint64_t>(1 << 20, Keys::uniform, seed);
  const auto how = options(ByHash{6});
  const BlockPool pool = open_pool(block_bytes, (8 << 20) / block_bytes + 64 + 100);
  for (int round = 0; round < 5; ++round) {
    const auto work = [&] {
      auto parts = partition(pool, std::span<const uint64_t>(items), how);
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
      const auto parts = partition(*pool, std::span<const uint64_t>(items), options(ByHash{6}));
      if (!parts) {
        EXPECT_EQ(parts.error().code, ErrorCode::out_of_mappings) << parts.error().message();
      } else {
        EXPECT_EQ(mechanism, Mechanism::uffd_move);  // the others map each block
      }
    }
    EXPECT_EQ(pool->blocks_free(), pool->blocks());
  }
}

std::vector<Way> ways() {
  std::vector<Way> all = {{PartitionMethod::private_streams},
                          {PartitionMethod::private_rings, RingWrap::conditional},
                          {PartitionMethod::private_rings, RingWrap::mask},
                          {PartitionMethod::shared_rings},
                          {PartitionMethod::shared_streams},
                          {PartitionMethod::shared_pieces}};
#if defined(__x86_64__)
  all.push_back({PartitionMethod::private_rings, RingWrap::handler});
#endif
  return all;
}

INSTANTIATE_TEST_SUITE_P(Methods, PartitionTest, testing::ValuesIn(ways()),
                         [](const auto& param) { return name_of_way(param.param); });

TEST(Partition, SharedMethodsWasteNoMoreThanABlockPerBucket) {
  constexpr size_t block_bytes = 64 * KiB;
  const auto items = make_items<uint64_t>(1'000'000, Keys::uniform, seed);
  const uint64_t full = items.size() * sizeof(uint64_t) / block_bytes;
  for (const auto method : {PartitionMethod::shared_rings, PartitionMethod::shared_streams,
                            PartitionMethod::shared_pieces}) {
    auto parts =
        partition(std::span<const uint64_t>(items),
                  {.by = ByHash{6}, .method = method, .threads = 3, .block_bytes = block_bytes});
    ASSERT_TRUE(parts) << parts.error().message();
    EXPECT_LE(parts->stats().blocks, full + 64) << name_of(method);
    EXPECT_LE(parts->stats().blocks_peak, full + 64 + 64 / 8) << name_of(method);
  }
}

TEST(Partition, TheTableOfBlocksIsRefusedWithoutACrash) {
  if (os::shadowed) GTEST_SKIP() << "no room for so many addresses";
  const os::Limits limits = os::limits();
  if (limits.overcommit_memory == 1 || limits.memory_bytes > 512 * GiB)
    GTEST_SKIP() << "the system would promise the memory";
  // Its table takes as many bytes as the items, which are never touched.
  auto space = os::Reservation::reserve(1024 * GiB);
  if (!space) GTEST_SKIP() << space.error().message();
  const std::span<const uint64_t> items(reinterpret_cast<const uint64_t*>(space->begin()),
                                        space->bytes() / sizeof(uint64_t));
  const auto parts = partition(items, {.by = ByHash{14}, .block_bytes = 64 * KiB});
  ASSERT_FALSE(parts);
  EXPECT_EQ(parts.error().code, ErrorCode::out_of_memory) << parts.error().message();
}

TEST(Partition, ManyBucketsOfASmallInputTakeLittleMemory) {
  const auto items = make_items<uint64_t>(1 << 17, Keys::uniform, seed);  // 64 bytes a bucket
  for (const unsigned threads : {1u, 2u}) {
    for (const auto method : {PartitionMethod::automatic, PartitionMethod::shared_rings}) {
      const PartitionOptions how{.by = ByHash{14}, .method = method, .threads = threads};
      const uint64_t before = os::resident_memory().bytes;
      auto parts = partition(std::span<const uint64_t>(items), how);
      ASSERT_TRUE(parts) << parts.error().message();
      const uint64_t after = os::resident_memory().bytes;
      // A page for each bucket; a block of 64 KiB would be 1 GiB.
      EXPECT_LE(parts->stats().blocks, 1u << 14);
      EXPECT_LE(after - std::min(before, after), 200 * MiB) << name_of(method);
    }
  }
}

TEST(Partition, ARangeEndsWithTheGreatestKeyOfTheType) {
  const auto items = make_items<uint32_t>(10'000, Keys::uniform, seed);
  auto parts = partition(std::span<const uint32_t>(items), {.by = ByRange{.buckets = 4}});
  ASSERT_TRUE(parts) << parts.error().message();
  for (uint32_t i = 0; i < 4; ++i) {
    EXPECT_GT(parts->bucket(i).size(), 2'000u);
    EXPECT_LT(parts->bucket(i).size(), 3'000u);
  }
}

// A forked child has no regions, so that a death test must run the program anew.
class PartitionDeathTest : public testing::TestWithParam<PartitionMethod> {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_P(PartitionDeathTest, NobodyServesAReleasedBucket) {
  const auto items = make_items<uint64_t>(100'000, Keys::uniform, seed);
  auto pool = BlockPool::open({.block_bytes = 16 * KiB, .blocks = 200});
  ASSERT_TRUE(pool);
  auto parts =
      partition(*pool, std::span<const uint64_t>(items), {.by = ByHash{3}, .method = GetParam()});
  ASSERT_TRUE(parts) << parts.error().message();
  volatile uint64_t* const released = parts->bucket(1).data();
  parts->release(1);
  EXPECT_DEATH(released[0] = 1, "");
  // Two blocks behind the last one.
  volatile uint64_t* const behind = parts->bucket(0).data() + parts->bucket(0).size() + 4 * KiB;
  EXPECT_DEATH(behind[0] = 1, "");
}

INSTANTIATE_TEST_SUITE_P(Streams, PartitionDeathTest,
                         testing::Values(PartitionMethod::private_streams,
                                         PartitionMethod::shared_streams),
                         [](const auto& param) { return std::string(name_of(param.param)); });

TEST(Partition, BadOptionsAreRefused) {
  const std::vector<uint32_t> items(100);
  const auto code_of = [&](const PartitionOptions& options) {
    auto parts = partition(std::span<const uint32_t>(items), options);
    EXPECT_FALSE(parts);
    return parts ? ErrorCode::io : parts.error().code;
  };
  for (const PartitionOptions& options : std::vector<PartitionOptions>{
           {.by = ByLowBits{15}},
           {.by = ByHighBits{40}},
           {.by = ByHighBits{.bits = 8, .key_bits = 33}},
           {.by = ByHash{0}},
           {.by = ByRange{.first = 1, .last = 0}},
           {.by = ByRange{.buckets = 0}},
           {.by = BySplitters{{2, 1}}},
           {.threads = 0},
           {.block_bytes = 5000},
           {.block_bytes = 2048},
           {.method = PartitionMethod::shared_pieces, .threads = 2, .stable = true},
           {.method = PartitionMethod::shared_rings, .threads = 8, .block_bytes = 4096}})
    EXPECT_EQ(code_of(options), ErrorCode::invalid_argument);
}

TEST(Partition, StableIsAutomaticWithSeveralThreads) {
  const auto items = make_items<KeyValue64>(500'000, Keys::few, seed);
  const PartitionOptions how{.by = ByLowBits{3}, .threads = 2, .stable = true};
  auto parts = partition(std::span<const KeyValue64>(items), how);
  ASSERT_TRUE(parts) << parts.error().message();
  expect_model(*parts, std::span<const KeyValue64>(items), how);
}

}  // namespace
}  // namespace penstock
