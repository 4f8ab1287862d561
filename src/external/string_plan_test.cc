#include "external/string_plan.h"

#include <gtest/gtest.h>

namespace penstock::external {
namespace {

class StringPlans : public testing::TestWithParam<std::tuple<double, unsigned, bool>> {};

// Every bucket can have a block while some are being written, and a level makes buckets smaller.
TEST_P(StringPlans, HoldForAnyMemoryAndInput) {
  const auto [item_bytes, threads, unique] = GetParam();
  SortOptions options;
  options.format = {record::Type::lines, 1};
  options.threads = threads;
  options.unique = unique;
  for (uint64_t memory = planned_bytes_min; memory <= 64 * GiB; memory += memory / 5) {
    for (uint64_t input = 16; input <= 64 * TiB; input *= 3) {
      SCOPED_TRACE(std::to_string(memory) + " for " + std::to_string(input));
      const StringPlan plan = plan_strings(options, memory, input, item_bytes, true);
      ASSERT_GE(plan.sorters, 1u);
      ASSERT_LT(plan.arena_bytes, memory);
      ASSERT_GE(plan.block_bytes, block_bytes_min);
      const uint64_t blocks = plan.arena_bytes / plan.block_bytes;
      if (plan.fits) {
        ASSERT_GE(plan.arena_bytes, input);
        ASSERT_GT(blocks, plan.buckets);
      } else {
        ASSERT_GE(blocks, plan.buckets + plan.write_blocks);
        ASSERT_GT(plan.write_blocks, 0u);
        ASSERT_LE(plan.region_bytes_max, plan.arena_bytes);
        ASSERT_LE(plan.kept_bytes, plan.arena_bytes);
        ASSERT_GE(plan.buckets, 2u);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Items, StringPlans,
                         testing::Combine(testing::Values(2.0, 10.0, 40.0, 100.0, 4000.0),
                                          testing::Values(1u, 2u, 8u), testing::Bool()));

}  // namespace
}  // namespace penstock::external
