// Test labels: one-thread

#include "files/sort/plan/bucket_plan.h"

#include <gtest/gtest.h>

#include <string>

#include "items/keys/codec.h"

namespace penstock::external {
namespace {

SortOptions options_for(items::Type type, unsigned threads) {
  SortOptions options;
  options.format.type = type;
  options.format.record_bytes = items::item_bytes_of(type);
  options.threads = threads;
  return options;
}

// Common part of the suites of numbers and of lines.
class Plans : public testing::Test {
 protected:
  // Asserts that every bucket can have a block while some are being written, that a level makes
  // buckets smaller, and that sorters and lists have enough memory.
  static void assert_holds(const BucketPlan& plan, uint64_t memory, uint64_t input) {
    ASSERT_GE(plan.buckets, 1u);
    ASSERT_GE(plan.sorters, 1u);
    ASSERT_LT(plan.arena_bytes, memory);
    ASSERT_GE(plan.block_bytes, files::block_bytes_min);
    ASSERT_LE(plan.region_bytes_max, plan.arena_bytes);
    const uint64_t blocks = plan.arena_bytes / plan.block_bytes;
    // The lists suffice by a count of the test's own; and everything fits into memory.
    const uint64_t spilled_blocks = plan.fits ? 0 : input / plan.block_bytes + plan.buckets;
    ASSERT_GE(plan.lists_bytes + lists_free_bytes, spilled_blocks * 12);
    ASSERT_LE(plan.lists_bytes + plan.arena_bytes + plan.sorters_bytes, memory);
    ASSERT_LE(plan.lists_bytes + plan.arena_bytes + plan.read_blocks * plan.read_block_bytes,
              memory);
    if (plan.fits) {
      ASSERT_GE(plan.arena_bytes, input);
      ASSERT_GT(blocks, plan.buckets);
    } else {
      ASSERT_GE(blocks, plan.buckets + plan.write_blocks);
      ASSERT_GT(plan.write_blocks, 0u);
      ASSERT_LE(plan.kept_bytes, plan.arena_bytes);
      ASSERT_GE(plan.buckets, 2u);
    }
  }

  // Asserts this for all memories and inputs. A plan may not hold for an input some thousand times
  // the memory (hundred times if that is little), but holds with more memory.
  static void assert_all_hold(const SortOptions& options, BucketInput input) {
    for (uint64_t memory = files::planned_bytes_min; memory <= 64 * GiB; memory += memory / 5) {
      for (input.bytes = 16; input.bytes <= 64 * TiB; input.bytes *= 3) {
        SCOPED_TRACE(std::to_string(memory) + " for " + std::to_string(input.bytes));
        const BucketPlan plan = plan_buckets(options, memory, input);
        if (plan.holds) {
          ASSERT_NO_FATAL_FAILURE(assert_holds(plan, memory, input.bytes));
          if (!options.format.numeric() || plan.fits || memory < files::usable_bytes_min) continue;
          ASSERT_GE(plan.region_bytes_max, MiB);
        } else {
          ASSERT_GT(input.bytes / memory, memory < files::usable_bytes_min ? 256u : 1024u);
          ASSERT_TRUE(plan_buckets(options, 64 * GiB, input).holds);
        }
      }
    }
  }
};

class NumberPlans : public Plans,
                    public testing::WithParamInterface<std::tuple<items::Type, unsigned, bool>> {};

TEST_P(NumberPlans, HoldForAnyMemoryAndInput) {
  const auto [type, threads, in_order] = GetParam();
  assert_all_hold(options_for(type, threads), {.in_order = in_order});
}

TEST_P(NumberPlans, MoreMemoryKeepsNoLess) {
  const auto [type, threads, in_order] = GetParam();
  for (uint64_t input : {100 * MiB, 1 * GiB, 8 * GiB}) {
    uint64_t kept = 0;
    bool fits = false;
    for (uint64_t memory = 16 * MiB; memory <= 16 * GiB; memory *= 2) {
      const BucketPlan plan =
          plan_buckets(options_for(type, threads), memory, {.bytes = input, .in_order = in_order});
      EXPECT_GE(plan.kept_bytes, kept) << memory / MiB << " MiB for " << input / MiB;
      EXPECT_GE(plan.fits, fits);
      EXPECT_EQ(plan.splits == 0, plan.fits);
      kept = plan.kept_bytes;
      fits = plan.fits;
    }
    EXPECT_TRUE(fits);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, NumberPlans,
                         testing::Combine(testing::Values(items::Type::u32, items::Type::u64,
                                                          items::Type::kv64),
                                          testing::Values(1u, 2u, 8u), testing::Bool()));

class LinePlans : public Plans,
                  public testing::WithParamInterface<std::tuple<double, unsigned, bool>> {};

TEST_P(LinePlans, HoldForAnyMemoryAndInput) {
  const auto [item_bytes, threads, unique] = GetParam();
  SortOptions options;
  options.format = {items::Type::lines, 1};
  options.threads = threads;
  options.unique = unique;
  assert_all_hold(options, {.item_bytes = item_bytes, .in_order = unique});
}

INSTANTIATE_TEST_SUITE_P(Items, LinePlans,
                         testing::Combine(testing::Values(2.0, 10.0, 40.0, 100.0, 4000.0),
                                          testing::Values(1u, 2u, 8u), testing::Bool()));

// A terabyte in small blocks within -S 32M: the plan takes larger blocks, or does not hold.
TEST(BucketPlan, ChoosesBlocksWhoseListsFit) {
  const SortOptions options = options_for(items::Type::u64, 2);
  const BucketPlan some = plan_buckets(options, 20 * MiB, {.bytes = 64 * GiB});
  ASSERT_TRUE(some.holds);
  EXPECT_GT(some.block_bytes, files::block_bytes_min);
  EXPECT_FALSE(plan_buckets(options, 20 * MiB, {.bytes = 8 * TiB}).holds);
  const BucketPlan much = plan_buckets(options, 900 * MiB, {.bytes = 7 * TiB});
  ASSERT_TRUE(much.holds);
  EXPECT_LT(much.lists_bytes, 900 * MiB / 4);
}

// A lower level gets the memory that the lists of the levels above leave.
TEST(BucketPlan, AllLevelsHaveRoomForTheirLists) {
  const SortOptions options = options_for(items::Type::u64, 2);
  for (uint64_t memory = 12 * MiB; memory <= 4 * GiB; memory *= 2) {
    uint64_t left = memory;
    for (const BucketPlan& level : plan_levels(options, memory, {.bytes = 1000 * memory})) {
      EXPECT_TRUE(level.holds) << memory;
      EXPECT_GE(left, files::planned_bytes_min);
      EXPECT_LE(level.lists_bytes + level.arena_bytes, left);
      left -= level.lists_bytes;
    }
    EXPECT_FALSE(plan_levels(options, memory, {.bytes = 10'000'000 * memory}).back().holds);
  }
}

// The lists that a very long pipe would need do not keep it from being sorted.
TEST(BucketPlan, APipeIsSortedWithinAnyMemory) {
  for (unsigned threads : {1u, 2u, 8u}) {
    const SortOptions options = options_for(items::Type::u64, threads);
    for (uint64_t memory = files::planned_bytes_min; memory <= GiB; memory += memory / 32) {
      const auto levels = plan_levels(options, memory, {.bytes = 4 * memory, .known = false});
      EXPECT_TRUE(levels.back().holds) << memory << ", " << threads;
      EXPECT_GE(listed_blocks_max(levels.front()), 8 * memory / files::block_bytes_max);
    }
  }
}

// An input of a hundred times the memory needs no third pass: it has as many buckets as blocks.
TEST(BucketPlan, SortsTheBucketsOfAHundredfoldInputInOnePass) {
  for (unsigned threads : {1u, 2u}) {
    const BucketInput input{.bytes = 2 * GiB};
    const SortOptions options = options_for(items::Type::u64, threads);
    EXPECT_EQ(splits_of(options, plan_buckets(options, 21 * MiB, input), input), 1u) << threads;
  }
}

// Several threads always distribute texts. They distribute numbers if they are four or more, their
// tables are small, and each bucket can have a second block.
TEST(BucketPlan, SeveralThreadsDistributeWhenThatPays) {
  for (uint64_t memory = files::planned_bytes_min; memory <= 4 * GiB; memory *= 2) {
    SortOptions lines;
    lines.format = {items::Type::lines, 1};
    lines.threads = 6;
    EXPECT_EQ(plan_buckets(lines, memory, {.bytes = GiB, .item_bytes = 20}).split_threads, 6u);
    for (const uint64_t bytes : {memory / 4, 2 * memory, 100 * memory}) {
      for (const unsigned threads : {1u, 2u, 3u, 4u, 8u, 100u}) {
        const BucketPlan plan =
            plan_buckets(options_for(items::Type::u64, threads), memory, {.bytes = bytes});
        SCOPED_TRACE(testing::Message()
                     << memory / MiB << " MiB, " << bytes / MiB << " MiB, " << threads);
        EXPECT_TRUE(threads >= 4 || plan.split_threads == 1);
        EXPECT_LE(plan.split_threads, 8u);
        EXPECT_LE(plan.split_bytes, std::max<uint64_t>(memory / 32, 512 * plan.buckets));
        if (plan.split_threads == 1) continue;
        const uint64_t blocks = plan.arena_bytes / plan.block_bytes;
        EXPECT_GE(blocks, 2 * plan.buckets + split_window_bytes_max / plan.block_bytes);
      }
    }
  }
  const SortOptions eight = options_for(items::Type::u64, 8);
  EXPECT_EQ(plan_buckets(eight, 512 * MiB, {.bytes = 4 * GiB}).split_threads, 8u);
  EXPECT_EQ(plan_buckets(eight, 8 * GiB, {.bytes = 4 * GiB}).split_threads, 8u);
  SortOptions pairs = options_for(items::Type::kv64, 8);
  EXPECT_EQ(plan_buckets(pairs, 512 * MiB, {.bytes = 4 * GiB}).split_threads, 8u);
  pairs.unique = true;
  EXPECT_EQ(plan_buckets(pairs, 512 * MiB, {.bytes = 4 * GiB}).split_threads, 1u);
}

}  // namespace
}  // namespace penstock::external
