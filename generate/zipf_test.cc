#include "generate/zipf.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "base/random.h"
#include "base/trials.h"

namespace penstock::generate {
namespace {

// Compares draws, in ranges of ranks (1, 2, 3-4, 5-8, ...), with the law summed term by term.
void expect_law(double exponent, uint64_t ranks) {
  const auto range_of = [](uint64_t rank) { return 64 - __builtin_clzll(2 * rank - 1); };
  std::vector<double> expected(66);
  double total = 0;
  for (uint64_t rank = ranks; rank > 0; --rank) {
    const double weight = std::pow(static_cast<double>(rank), -exponent);
    expected[range_of(rank)] += weight;
    total += weight;
  }
  const Zipf zipf(exponent, ranks);
  Random random(23);
  const auto draws = static_cast<int>(trials(1'000'000));
  std::vector<int> seen(66);
  for (int i = 0; i < draws; ++i) {
    const uint64_t rank = zipf.rank(random.next());
    ASSERT_GE(rank, 1u);
    ASSERT_LE(rank, ranks);
    ++seen[range_of(rank)];
  }
  for (size_t range = 0; range < expected.size(); ++range) {
    const double mean = draws * expected[range] / total;
    EXPECT_NEAR(seen[range], mean, 5 * std::sqrt(mean) + 3)
        << "exponent " << exponent << ", ranks " << ranks << ", range " << range;
  }
}

TEST(Zipf, DrawsFollowTheLaw) {
  for (const double exponent : {0.0, 0.5, 0.75, 0.99999, 1.0, 1.2, 2.5}) {
    for (const uint64_t ranks : {1, 2, 3, 1000, 16383, 16384, 1'000'000})
      expect_law(exponent, ranks);
  }
}

TEST(Zipf, AllRanksCanBeDrawnAtTheEdges) {
  const Zipf zipf(1, uint64_t{1} << 40);
  Random random(2);
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t rank = zipf.rank(random.next());
    ASSERT_GE(rank, 1u);
    ASSERT_LE(rank, uint64_t{1} << 40);
  }
  EXPECT_GE(zipf.rank(0), 1u);
  EXPECT_GE(zipf.rank(~uint64_t{0}), 1u);
}

}  // namespace
}  // namespace penstock::generate
