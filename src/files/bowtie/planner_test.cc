// Test labels: one-thread, no-sanitizer

#include "files/bowtie/planner.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "base/random.h"
#include "penstock/base.h"

namespace penstock::bowtie {
namespace {

// Section V.A: 64 TB in 8,000 files, 8 GB of memory.
PlanRequest paper_example() {
  return {.inputs = 8000,
          .outputs = 1,
          .bytes = 64e12,
          .memory_bytes = 8'000'000'000,
          .device = &paper_array()};
}

TEST(Planner, FindsThePapersTree) {
  for (Search search : {Search::exact, Search::coarse}) {
    const auto plan = plan_bowtie(paper_example(), search);
    ASSERT_TRUE(plan.has_value());
    ASSERT_EQ(plan->passes.size(), 2u);
    EXPECT_EQ(plan->passes[0].fan_in + plan->passes[1].fan_in, 179u) << plan->factors();
    if (search == Search::exact) {
      EXPECT_EQ(plan->factors(), "90 x 89");
    }
    // The paper counts only the bytes read (papers/bowtie/merge_tree_test.cc).
    EXPECT_NEAR(plan->throughput_bytes_per_s / 1e6, 1600, 10);
    const auto others = alternatives(paper_example(), *plan);
    ASSERT_GE(others.size(), 3u);
    EXPECT_EQ(others[0].plan.passes.size(), 13u);
    EXPECT_NEAR(others[0].plan.throughput_bytes_per_s / 1e6, 271, 1);
    EXPECT_EQ(others[1].plan.passes.size(), 1u);
    EXPECT_NEAR(others[1].plan.throughput_bytes_per_s / 1e6, 387, 2);
    EXPECT_GT(others[0].over_best, 5);
    EXPECT_GT(others[1].over_best, 4);
    // 8,000 blocks of 2 MiB do not fit 8 GB, so STXXL takes two passes of sqrt(n).
    EXPECT_EQ(others[2].plan.factors(), "90 x 89");
  }
}

// The cheapest tree of merges with factors up to `files`, by brute force.
double cheapest_merge(const PlanRequest& request, uint32_t files, std::vector<uint32_t>& so_far) {
  Plan plan = plan_with_factors(request, so_far, {});
  double best = plan.exceeds_memory ? INFINITY : plan.seconds;
  for (uint32_t k = 2; k < files; ++k) {
    so_far.push_back(k);
    best = std::min(best, cheapest_merge(request, (files + k - 1) / k, so_far));
    so_far.pop_back();
  }
  return best;
}

TEST(Planner, ExactIsAsGoodAsBruteForce) {
  Random random(1);
  for (int round = 0; round < 40; ++round) {
    DeviceProfile device{.name = "random",
                         .read_bytes_per_s = 1e8 * (1 + random.unit()),
                         .write_bytes_per_s = 1e8 * (1 + random.unit()),
                         .switch_seconds = SwitchDelay(std::pow(10, -4 + 3 * random.unit()))};
    PlanRequest request{.inputs = static_cast<uint32_t>(2 + random.below(40)),
                        .outputs = 1,
                        .bytes = std::pow(10, 8 + 4 * random.unit()),
                        .memory_bytes = static_cast<uint64_t>(std::pow(10, 6 + 3 * random.unit())),
                        .device = &device};
    const auto plan = plan_bowtie(request);
    ASSERT_TRUE(plan.has_value());
    std::vector<uint32_t> factors;
    const double best = cheapest_merge(request, request.inputs, factors);
    // The listing assumes n / f files, although rounding up leaves a few more.
    EXPECT_LE(plan->seconds, best * 1.02) << request.inputs << " " << plan->factors();
    EXPECT_GE(plan->seconds, best * (1 - 1e-9));
  }
}

TEST(Planner, DistributionsMirrorMerges) {
  DeviceProfile device = paper_array();
  for (uint32_t streams : {7u, 64u, 512u, 4096u}) {
    PlanRequest merge{
        .inputs = streams, .outputs = 1, .bytes = 4e12, .memory_bytes = 2 * GiB, .device = &device};
    PlanRequest split = merge;
    std::swap(split.inputs, split.outputs);
    const auto merged = plan_bowtie(merge);
    const auto distributed = plan_bowtie(split);
    ASSERT_TRUE(merged && distributed);
    // Runs with groups that do not divide differ by half a per mille at most.
    EXPECT_NEAR(merged->seconds / distributed->seconds, 1, 0.002) << streams;
    EXPECT_EQ(merged->passes.size(), distributed->passes.size());
    EXPECT_EQ(distributed->passes.back().files_out, streams);
    EXPECT_EQ(distributed->passes.front().files_in, 1u);
    for (size_t i = 1; i < distributed->passes.size(); ++i)
      EXPECT_EQ(distributed->passes[i].files_in, distributed->passes[i - 1].files_out);
  }
}

TEST(Planner, CoarseComesWithinAPercent) {
  Random random(2);
  double worst = 1;
  for (int round = 0; round < 60; ++round) {
    DeviceProfile device{.name = "random",
                         .read_bytes_per_s = 1e8 * (1 + random.unit()),
                         .write_bytes_per_s = 1e8 * (1 + random.unit()),
                         .switch_seconds = SwitchDelay(std::pow(10, -5 + 4 * random.unit()))};
    PlanRequest request{.inputs = static_cast<uint32_t>(std::pow(2, 10 * random.unit())),
                        .outputs = static_cast<uint32_t>(std::pow(2, 10 * random.unit())),
                        .bytes = std::pow(10, 9 + 5 * random.unit()),
                        .memory_bytes = static_cast<uint64_t>(std::pow(10, 7 + 3 * random.unit())),
                        .device = &device};
    const auto exact = plan_bowtie(request, Search::exact);
    const auto coarse = plan_bowtie(request, Search::coarse);
    ASSERT_TRUE(exact && coarse);
    worst = std::max(worst, coarse->seconds / exact->seconds);
    EXPECT_LE(coarse->seconds, exact->seconds * 1.01)
        << request.inputs << " x " << request.outputs << ": " << exact->factors() << " and "
        << coarse->factors();
    if (request.inputs > 300) {
      EXPECT_LT(coarse->combinations, exact->combinations / 2);
    }
  }
  RecordProperty("worst_coarse_over_exact", std::to_string(worst));
}

// The search over (i, j) leaves out the pairs that no factor reaches; this test tries all pairs.
TEST(Planner, TheShorterListOfPairsLosesNothing) {
  DeviceProfile device = *find_profile("hard-disk");
  for (auto [n, m] : {std::pair{30u, 50u}, {64u, 3u}, {2u, 200u}, {1u, 100u}, {17u, 17u}}) {
    PlanRequest request{
        .inputs = n, .outputs = m, .bytes = 1e12, .memory_bytes = 64 * MiB, .device = &device};
    const auto plan = plan_bowtie(request);
    ASSERT_TRUE(plan.has_value());
    for (uint32_t f = 1; f <= n; ++f) {
      for (uint32_t g = 1; g <= m; ++g) {
        std::vector<uint32_t> merges, splits;
        if (f > 1) merges.push_back(f);
        if (g > 1) splits.push_back(g);
        const Plan other = plan_with_factors(request, merges, splits);
        if (!other.exceeds_memory) {
          EXPECT_LE(plan->seconds, other.seconds * 1.01);
        }
      }
    }
  }
}

TEST(Planner, EveryPassReadsTheFilesOfThePassBefore) {
  DeviceProfile device = paper_array();
  const auto plan = plan_bowtie(
      {.inputs = 64, .outputs = 64, .bytes = 1e12, .memory_bytes = 256 * MiB, .device = &device});
  ASSERT_TRUE(plan.has_value());
  double total = 0;
  for (size_t i = 0; i < plan->passes.size(); ++i) {
    if (i > 0) {
      EXPECT_NEAR(plan->passes[i].read_bytes, plan->passes[i - 1].written_bytes, 1);
    }
    total += plan->passes[i].seconds;
  }
  EXPECT_NEAR(plan->seconds, total, 1e-6);
  EXPECT_GT(plan->disk_bytes_max, 0);
}

TEST(Planner, OnePassNeedsDiskForItsOutputTwoPassesForTwo) {
  DeviceProfile device = paper_array();
  PlanRequest request{
      .inputs = 1, .outputs = 512, .bytes = 4e12, .memory_bytes = 8 * GiB, .device = &device};
  auto plan = plan_bowtie(request);
  ASSERT_TRUE(plan.has_value());
  EXPECT_EQ(plan->passes.size(), 1u);
  EXPECT_NEAR(plan->disk_bytes_max, 4e12, 1);
  request.memory_bytes = 2 * GiB;
  plan = plan_bowtie(request);
  EXPECT_EQ(plan->passes.size(), 2u);
  EXPECT_NEAR(plan->disk_bytes_max, 8e12, 1);
}

TEST(Planner, StreamsThatDoNotFitAreMergedInPasses) {
  DeviceProfile device = *find_profile("nvme-ssd");
  device.switch_seconds = SwitchDelay(0);  // one pass would be best
  PlanRequest request{.inputs = 1000,
                      .outputs = 1,
                      .bytes = 1e12,
                      .memory_bytes = 100 * MiB,
                      .device = &device,
                      .stream_bytes_min = MiB};
  const auto plan = plan_bowtie(request);
  ASSERT_TRUE(plan.has_value());
  EXPECT_FALSE(plan->exceeds_memory);
  EXPECT_EQ(plan->passes.size(), 2u);
  for (const Pass& pass : plan->passes) EXPECT_LE(pass.fan_in + 1, 100u);
  EXPECT_TRUE(alternatives(request, *plan)[1].plan.exceeds_memory);
  request.memory_bytes = 2 * MiB;
  EXPECT_FALSE(plan_bowtie(request).has_value());
  request.device = nullptr;
}

TEST(Planner, FromMemoryAndToMemory) {
  for (auto [n, m] : {std::pair{0u, 1u}, {1u, 0u}, {1u, 1u}, {0u, 300u}, {300u, 0u}}) {
    PlanRequest request{
        .inputs = n, .outputs = m, .bytes = 1e12, .memory_bytes = GiB, .device = &paper_array()};
    for (Search search : {Search::exact, Search::coarse}) {
      const auto plan = plan_bowtie(request, search);
      ASSERT_TRUE(plan.has_value());
      if (n == 0) {
        EXPECT_EQ(plan->passes.front().read_bytes, 0);
      }
      if (m == 0) {
        EXPECT_EQ(plan->passes.back().written_bytes, 0);
      }
      EXPECT_GT(plan->seconds, 0);
      (void)alternatives(request, *plan);
    }
  }
}

}  // namespace
}  // namespace penstock::bowtie
