#include "external/string_plan.h"

#include <gtest/gtest.h>

#include "external/bucket_plan_checks.h"

namespace penstock::external {
namespace {

class StringPlans : public testing::TestWithParam<std::tuple<double, unsigned, bool>> {};

TEST_P(StringPlans, HoldForAnyMemoryAndInput) {
  const auto [item_bytes, threads, unique] = GetParam();
  SortOptions options;
  options.format = {record::Type::lines, 1};
  options.threads = threads;
  options.unique = unique;
  auto make = [&](uint64_t memory, uint64_t input) {
    return plan_strings(options, memory, input, item_bytes, true);
  };
  for_any_plan_that_holds(make, [&](const StringPlan& plan, uint64_t memory, uint64_t input) {
    ASSERT_NO_FATAL_FAILURE(assert_holds(plan, memory, input));
    if (plan.fits) return;
    ASSERT_LE(plan.region_bytes_max, plan.arena_bytes);
  });
}

INSTANTIATE_TEST_SUITE_P(Items, StringPlans,
                         testing::Combine(testing::Values(2.0, 10.0, 40.0, 100.0, 4000.0),
                                          testing::Values(1u, 2u, 8u), testing::Bool()));

}  // namespace
}  // namespace penstock::external
