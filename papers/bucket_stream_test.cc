// Test labels: nobody

#include "papers/bucket_stream.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"
#include "memory/stream/mechanism_fixture.h"

namespace penstock::papers {
namespace {

constexpr size_t block_bytes = 64 * KiB;
constexpr size_t block_items = block_bytes / sizeof(uint64_t);

std::unique_ptr<pool::Pool> open_pool(pool::Mechanism mechanism, uint32_t blocks) {
  auto pool = pool::Pool::open(
      {.block_bytes = block_bytes, .blocks_max = blocks, .mechanism = mechanism, .strict = true});
  if (!pool && pool.error().code == ErrorCode::unsupported) return nullptr;
  EXPECT_TRUE(pool) << pool.error().message();
  return std::move(*pool);
}

class BucketStreamTest : public testing::TestWithParam<pool::Mechanism> {
 protected:
  void open(uint32_t streams, uint32_t blocks, Reclaim reclaim,
            uint64_t bytes_max = 64 * block_bytes) {
    pool_ = open_pool(GetParam(), blocks);
    if (!pool_) GTEST_SKIP() << pool::name_of(GetParam()) << " is not to be had on this kernel";
    auto group =
        BucketGroup::open(*pool_, {.streams = streams, .bytes_max = bytes_max, .reclaim = reclaim});
    ASSERT_TRUE(group) << group.error().message();
    group_ = std::move(*group);
  }
  uint64_t* begin(uint32_t stream) { return reinterpret_cast<uint64_t*>(group_->begin(stream)); }
  // Reads are volatile: a test that drops what it reads still reads.
  static uint64_t sum(const uint64_t* from, const uint64_t* to) {
    uint64_t total = 0;
    for (const volatile uint64_t* at = from; at < to; ++at) total += *at;
    return total;
  }

  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<BucketGroup> group_;
};

TEST_P(BucketStreamTest, ReaderFreesBlocksBehindItself) {
  open(1, 32, Reclaim::by_faults);
  if (IsSkipped()) return;
  uint64_t* data = begin(0);
  size_t items = 10 * block_items;
  for (size_t i = 0; i < items; ++i) data[i] = i;
  EXPECT_EQ(group_->blocks_held(), 10u);
  for (size_t i = 0; i < items; ++i) ASSERT_EQ(static_cast<const volatile uint64_t*>(data)[i], i);
  // The last has no guard, so the one before it stays; and one is dying.
  EXPECT_EQ(group_->blocks_held(), 3u);
  group_->trim(0, group_->begin(0));
  EXPECT_EQ(pool_->blocks_free(), 32u);
}

// Figure 6 (a): deeper levels lie behind shallower ones and are read first. Their first read fault
// must not free the block in front, which contains unread keys.
TEST_P(BucketStreamTest, FirstReadFaultOfADeeperLevelKeepsTheShallowerOne) {
  open(1, 32, Reclaim::by_faults);
  if (IsSkipped()) return;
  uint64_t* data = begin(0);
  size_t level0 = 2 * block_items + block_items / 2;
  size_t level1 = level0 + 2 * block_items;
  size_t level2 = level1 + block_items + 10;
  for (size_t i = 0; i < level2; ++i) data[i] = i * 3;
  for (auto [from, to] :
       {std::pair{level1, level2}, std::pair{level0, level1}, std::pair{size_t{0}, level0}}) {
    for (size_t i = from; i < to; ++i)
      ASSERT_EQ(static_cast<const volatile uint64_t*>(data)[i], i * 3) << i;
  }
}

// Figure 6 (b): a guard that was set up after the preceding read fault says nothing about what lies
// before it.
TEST_P(BucketStreamTest, GuardSetAfterTheLastReadFaultDoesNotFree) {
  open(1, 32, Reclaim::by_faults);
  if (IsSkipped()) return;
  uint64_t* data = begin(0);
  size_t level0 = block_items + block_items / 2;  // ends inside block 1
  for (size_t i = 0; i < level0 + block_items; ++i)
    data[i] = i;  // appended keys guard blocks 0 and 1
  EXPECT_EQ(sum(data + level0, data + level0 + block_items),
            sum(data + level0, data + level0 + block_items));
  EXPECT_GT(sum(data, data + level0), 0u);  // level 0 is read: a read fault at block 0 or 1
  // Now another bucket's keys are appended behind level 0, through blocks 1, 2 and 3, and read from
  // their end.
  size_t end = level0 + 2 * block_items;
  for (size_t i = level0; i < end; ++i) data[i] = i * 7;
  size_t level1_second_half = level0 + block_items + 100;
  for (size_t i = level1_second_half; i < end; ++i)
    ASSERT_EQ(static_cast<const volatile uint64_t*>(data)[i], i * 7);
  for (size_t i = level0; i < level1_second_half; ++i)
    ASSERT_EQ(static_cast<const volatile uint64_t*>(data)[i], i * 7);
}

// Algorithm 9 of the paper as printed, on faults alone.
class BucketSort {
 public:
  BucketSort(BucketGroup& group, std::vector<uint64_t>& output) : group_(group), output_(output) {}

  void run(std::vector<uint64_t>& input) {
    for (auto& level : ends_) level.resize(buckets);
    for (uint32_t j = 0; j < buckets; ++j)
      ends_[0][j] = reinterpret_cast<uint64_t*>(group_.begin(j));
    sort(input.data(), input.size(), 64 - bits, 0);
  }

 private:
  static constexpr unsigned bits = 4;
  static constexpr uint32_t buckets = 1u << bits;
  static constexpr size_t leaf = 32;

  void sort(const uint64_t* keys, size_t count, unsigned shift, size_t level) {
    auto& start = ends_[level];
    auto& next = ends_[level + 1];
    next = start;
    for (size_t i = 0; i < count; ++i) {
      uint64_t key = static_cast<const volatile uint64_t*>(keys)[i];
      *next[(key >> shift) & (buckets - 1)]++ = key;
    }
    for (uint32_t j = 0; j < buckets; ++j) {
      uint64_t* from = ends_[level][j];
      auto size = static_cast<size_t>(ends_[level + 1][j] - from);
      if (size > leaf && shift >= bits) {
        sort(from, size, shift - bits, level + 1);
      } else {
        std::vector<uint64_t> small(from, from + size);
        std::sort(small.begin(), small.end());
        output_.insert(output_.end(), small.begin(), small.end());
      }
    }
  }

  BucketGroup& group_;
  std::vector<uint64_t>& output_;
  std::vector<uint64_t*> ends_[64 / bits + 2];
};

TEST_P(BucketStreamTest, AlgorithmNineSortsOnFaultsAlone) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    size_t count = 3 * 16 * block_items / 2 + seed * 1001;
    Random random(seed);
    std::vector<uint64_t> input(count);
    for (uint64_t& key : input) {
      switch (seed) {
        case 1:
          key = random.next();
          break;
        case 2:
          key = random.next() >> 40 << 13;
          break;
        case 3:
          key = 42;
          break;
        case 4:
          key = uint64_t{1} << random.below(64);
          break;
        case 5:
          key = random.below(3) == 0 ? random.next() : random.next() >> 60 << 60;
          break;
        default:
          key = random.next() | 0xfff0000000000000;
          break;
      }
    }
    uint32_t blocks = static_cast<uint32_t>(count / block_items) + 1 + 3 * 16 + 32;
    open(16, blocks, Reclaim::by_faults, 20 * count * sizeof(uint64_t));
    if (IsSkipped()) return;
    std::vector<uint64_t> output;
    BucketSort(*group_, output).run(input);
    std::sort(input.begin(), input.end());
    ASSERT_EQ(output, input) << "seed " << seed;
    group_.reset();
    EXPECT_EQ(pool_->blocks_free(), blocks);
  }
}

TEST_P(BucketStreamTest, RandomAppendsAndReleasesMatchAModel) {
  constexpr uint32_t streams = 8;
  open(streams, 64, Reclaim::by_caller);
  if (IsSkipped()) return;
  std::vector<std::vector<uint64_t>> model(streams);
  uint64_t seed = 20261120;
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int step = 0; step < 400; ++step) {
    auto stream = static_cast<uint32_t>(random.below(streams));
    auto& expected = model[stream];
    if (random.below(3) != 0) {
      size_t count = random.below(block_items / 2) + 1;
      uint32_t blocks_before = 0;
      for (auto& other : model)
        blocks_before += static_cast<uint32_t>((other.size() + block_items - 1) / block_items);
      if (blocks_before + 2 > 64 || expected.size() + count > 60 * block_items) continue;
      for (size_t i = 0; i < count; ++i) {
        begin(stream)[expected.size()] = random.next();
        expected.push_back(begin(stream)[expected.size()]);
      }
    } else {
      size_t keep = random.below(expected.size() + 1);
      for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(begin(stream)[i], expected[i]);
      expected.resize(keep);
      group_->trim(stream, reinterpret_cast<std::byte*>(begin(stream) + keep));
    }
    uint32_t blocks = 0;
    for (auto& other : model)
      blocks += static_cast<uint32_t>((other.size() + block_items - 1) / block_items);
    ASSERT_EQ(group_->blocks_held(), blocks);
  }
}

// A forked child has no regions, so a death test must run the program anew.
class BucketStreamDeathTest : public BucketStreamTest {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_P(BucketStreamDeathTest, ReadingUnwrittenMemoryCrashes) {
  open(2, 8, Reclaim::by_caller);
  if (IsSkipped()) return;
  EXPECT_DEATH(sum(begin(1), begin(1) + 1), "");
}

TEST_P(BucketStreamDeathTest, AnEmptyPoolStopsTheProgramWithAMessage) {
  open(1, 2, Reclaim::by_caller);
  if (IsSkipped()) return;
  EXPECT_DEATH(std::fill(begin(0), begin(0) + 3 * block_items, 1), "no free block left");
}

INSTANTIATE_TEST_SUITE_P(Mechanisms, BucketStreamTest, every_mechanism, name_of_mechanism);
INSTANTIATE_TEST_SUITE_P(Mechanisms, BucketStreamDeathTest,
                         testing::Values(pool::Mechanism::mremap, pool::Mechanism::uffd_move),
                         name_of_mechanism);

}  // namespace
}  // namespace penstock::papers
