// Test labels: one-thread

#include "papers/bowtie/merge_tree.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/random.h"

namespace penstock::papers {
namespace {

// Section V.A: 64 TB in 8,000 files, 8 GB of memory.
TEST(MergeTree, MatchesThePapersExample) {
  const MergeRequest request{.files = 8000,
                             .bytes = [](double) { return 64e12; },
                             .memory_bytes = 8'000'000'000,
                             .device = &paper_array()};
  const std::vector<uint32_t> best = cheapest_merges(request);
  EXPECT_EQ(best, (std::vector<uint32_t>{90, 89}));
  auto mb_per_s = [&](const std::vector<uint32_t>& fans) {
    return 64e6 / merge_seconds(request, fans);
  };
  // The delay is constant. The paper, with its measured curve, has 1,353 MB/s.
  EXPECT_NEAR(mb_per_s(best), 1507, 10);
  EXPECT_NEAR(mb_per_s(std::vector<uint32_t>(13, 2)), 273, 1);
  EXPECT_NEAR(mb_per_s({8000}), 208, 2);
}

double cheapest_by_force(const MergeRequest& request, uint32_t files, std::vector<uint32_t>& fans) {
  if (files == 1) return merge_seconds(request, fans);
  double best = INFINITY;
  for (uint32_t k = 2; k <= files; ++k) {
    fans.push_back(k);
    best = std::min(best, cheapest_by_force(request, (files + k - 1) / k, fans));
    fans.pop_back();
  }
  return best;
}

TEST(MergeTree, IsAsGoodAsBruteForce) {
  Random random(1);
  for (int round = 0; round < 40; ++round) {
    const DeviceProfile device{.name = "random",
                               .read_bytes_per_s = 1e8 * (1 + random.unit()),
                               .write_bytes_per_s = 1e8,
                               .switch_seconds = SwitchDelay(std::pow(10, -4 + 3 * random.unit()))};
    const auto n = static_cast<uint32_t>(2 + random.below(40));
    const double bytes = std::pow(10, 8 + 4 * random.unit());
    // Merging removes duplicates: at least a part of the data stays.
    const double stays = round % 2 == 0 ? 1 : 0.3 + 0.7 * random.unit();
    const MergeRequest request{
        .files = n,
        .bytes = [=](double files) { return bytes * (stays + (1 - stays) * files / n); },
        .memory_bytes = static_cast<uint64_t>(std::pow(10, 6 + 3 * random.unit())),
        .device = &device};
    std::vector<uint32_t> fans;
    const double best = cheapest_by_force(request, n, fans);
    // The listing computes with n / f files if rounding up leaves a few more.
    EXPECT_LE(merge_seconds(request, cheapest_merges(request)), best * 1.02) << n;
  }
}

TEST(MergeTree, HasMorePassesIfDataShrink) {
  MergeRequest request{.files = 64,
                       .bytes = [](double) { return 1e12; },
                       .memory_bytes = 256 << 20,
                       .device = &paper_array()};
  const auto plain = cheapest_merges(request);
  request.bytes = [](double files) { return 1e12 * files / 64; };  // equal keys are summed
  const auto shrinking = cheapest_merges(request);
  EXPECT_GT(shrinking.size(), plain.size());
  EXPECT_LT(merge_seconds(request, shrinking), merge_seconds(request, plain));
}

}  // namespace
}  // namespace penstock::papers
