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
  for_any_memory_and_input([&](uint64_t memory, uint64_t input) {
    const NumberPlan plan = plan_numbers(options, memory, input, true, ordered);
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
