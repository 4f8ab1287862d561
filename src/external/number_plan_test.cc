#include "external/number_plan.h"

#include <gtest/gtest.h>

#include "external/memory_plan.h"

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

// Every bucket can have a block while some are being written, and the sorts have what they need.
TEST_P(NumberPlans, HoldForAnyMemoryAndInput) {
  auto [type, threads, ordered] = GetParam();
  SortOptions options = options_for(type, threads);
  for (uint64_t memory = planned_bytes_min; memory <= 64 * GiB; memory += memory / 5) {
    for (uint64_t input = 16; input <= 64 * TiB; input *= 3) {
      SCOPED_TRACE(std::to_string(memory) + " for " + std::to_string(input));
      NumberPlan plan = plan_numbers(options, memory, input, true, ordered);
      ASSERT_GE(plan.buckets, 1u);
      ASSERT_LT(plan.arena_bytes, memory);
      ASSERT_GE(plan.block_bytes, block_bytes_min);
      uint64_t blocks = plan.arena_bytes / plan.block_bytes;
      if (plan.fits) {
        ASSERT_GE(plan.arena_bytes, input);
        ASSERT_GT(blocks, plan.buckets);
      } else {
        ASSERT_GE(blocks, plan.buckets + plan.write_blocks);
        ASSERT_GT(plan.write_blocks, 0u);
        ASSERT_LE(number_region_bytes(plan.bucket_bytes_max), plan.arena_bytes);
        ASSERT_GE(plan.bucket_bytes_max, MiB);
        ASSERT_LE(plan.kept_bytes, plan.arena_bytes);
        // Each level makes what is too large smaller.
        ASSERT_GE(plan.buckets, 2u);
      }
    }
  }
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

INSTANTIATE_TEST_SUITE_P(Types, NumberPlans,
                         testing::Combine(testing::Values(record::Type::u32, record::Type::u64,
                                                          record::Type::kv64),
                                          testing::Values(1u, 2u, 8u), testing::Bool()));

}  // namespace
}  // namespace penstock::external
