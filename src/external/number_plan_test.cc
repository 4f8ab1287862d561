#include "external/number_plan.h"

#include <gtest/gtest.h>

#include "external/bucket_plan_checks.h"

namespace penstock::external {
namespace {

SortOptions options_for(record::Type type, unsigned threads) {
  SortOptions options;
  options.format.type = type;
  options.format.record_bytes = type == record::Type::kv64 ? 16 : 8;
  options.threads = threads;
  return options;
}

class NumberPlans : public testing::TestWithParam<std::tuple<record::Type, unsigned, bool>> {};

// And the sorts have what they need.
TEST_P(NumberPlans, HoldForAnyMemoryAndInput) {
  auto [type, threads, ordered] = GetParam();
  SortOptions options = options_for(type, threads);
  auto make = [&](uint64_t memory, uint64_t input) {
    return plan_numbers(options, memory, input, true, ordered);
  };
  for_any_plan_that_holds(make, [&](const NumberPlan& plan, uint64_t memory, uint64_t input) {
    ASSERT_NO_FATAL_FAILURE(assert_holds(plan, memory, input));
    if (plan.fits) return;
    ASSERT_LE(number_region_bytes(plan.bucket_bytes_max), plan.arena_bytes);
    if (memory < usable_bytes_min) return;
    ASSERT_GE(plan.bucket_bytes_max, MiB);
  });
}

TEST_P(NumberPlans, MoreMemoryKeepsNoLess) {
  auto [type, threads, ordered] = GetParam();
  SortOptions options = options_for(type, threads);
  for (uint64_t input : {100 * MiB, 1 * GiB, 8 * GiB}) {
    uint64_t kept = 0;
    bool fits = false;
    for (uint64_t memory = 16 * MiB; memory <= 16 * GiB; memory *= 2) {
      NumberPlan plan = plan_numbers(options, memory, input, true, ordered);
      EXPECT_GE(plan.kept_bytes, kept) << memory / MiB << " MiB for " << input / MiB;
      EXPECT_GE(plan.fits, fits);
      kept = plan.kept_bytes;
      fits = plan.fits;
    }
    EXPECT_TRUE(fits);
  }
}

// What -S 32M leaves, for a terabyte of small blocks: larger ones, or none at all.
TEST(NumberPlan, ChoosesBlocksWhoseListsFit) {
  const SortOptions options = options_for(record::Type::u64, 2);
  const NumberPlan some = plan_numbers(options, 20 * MiB, 64 * GiB, true, false);
  ASSERT_TRUE(some.holds);
  EXPECT_GT(some.block_bytes, block_bytes_min);
  EXPECT_FALSE(plan_numbers(options, 20 * MiB, 8 * TiB, true, false).holds);
  const NumberPlan much = plan_numbers(options, 900 * MiB, 7 * TiB, true, false);
  ASSERT_TRUE(much.holds);
  EXPECT_LT(much.lists_bytes, 900 * MiB / 4);
}

// A level below has what the lists of those above it leave.
TEST(NumberPlan, AllLevelsHaveRoomForTheirLists) {
  const SortOptions options = options_for(record::Type::u64, 2);
  for (uint64_t memory = 12 * MiB; memory <= 4 * GiB; memory *= 2) {
    uint64_t least = memory;
    auto plan = [&](uint64_t bytes, uint64_t input, uint32_t) {
      const NumberPlan level = plan_numbers(options, bytes, input, true, false);
      if (level.holds) {
        EXPECT_LE(level.lists_bytes + level.arena_bytes, bytes);
      }
      least = std::min(least, bytes);
      return level;
    };
    EXPECT_TRUE(all_levels_hold(memory, 1000 * memory, plan)) << memory;
    EXPECT_GE(least, planned_bytes_min);
    EXPECT_FALSE(all_levels_hold(memory, 10'000'000 * memory, plan)) << memory;
  }
}

// What lists a pipe would need if it were very long does not keep it from being sorted.
TEST(NumberPlan, APipeIsSortedWithinAnyMemory) {
  for (unsigned threads : {1u, 2u, 8u}) {
    const SortOptions options = options_for(record::Type::u64, threads);
    for (uint64_t memory = planned_bytes_min; memory <= GiB; memory += memory / 32) {
      auto plan = [&](uint64_t bytes, uint64_t input, uint32_t depth) {
        return plan_numbers(options, bytes, input, depth > 0, false);
      };
      EXPECT_TRUE(all_levels_hold(memory, 4 * memory, plan)) << memory << ", " << threads;
      EXPECT_GE(listed_blocks_max(plan(memory, 4 * memory, 0)), 8 * memory / block_bytes_max);
    }
  }
}

// A hundred times its memory needs no third pass: as many buckets as there are blocks for.
TEST(NumberPlan, SortsTheBucketsOfMuchInputAsTheyAre) {
  for (unsigned threads : {1u, 2u}) {
    const uint64_t input = 2 * GiB;
    const NumberPlan plan =
        plan_numbers(options_for(record::Type::u64, threads), 21 * MiB, input, true, false);
    EXPECT_LE(input / plan.buckets, plan.bucket_bytes_max) << threads;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, NumberPlans,
                         testing::Combine(testing::Values(record::Type::u32, record::Type::u64,
                                                          record::Type::kv64),
                                          testing::Values(1u, 2u, 8u), testing::Bool()));

}  // namespace
}  // namespace penstock::external
