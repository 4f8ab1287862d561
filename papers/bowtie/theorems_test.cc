// Test labels: one-thread, no-sanitizer

#include "papers/bowtie/theorems.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/random.h"
#include "penstock/base.h"

namespace penstock::papers {
namespace {

constexpr uint64_t memory = 16 * GiB;
constexpr double M = 16.0 * GiB;

double sum(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

TEST(Theorems, RunLengthsMatchThePapersExamples) {
  // Theorem 2 beats the naive M / m by 2 m / (m - 1): four times for two outputs, then twice.
  for (uint32_t m : {2u, 3u, 10u, 1000u}) {
    const Bowtie bowtie{.outputs = m, .memory_bytes = memory};
    EXPECT_NEAR(run_bytes_a1(bowtie) / run_bytes_a1_naive(bowtie), 2.0 * m / (m - 1), 1e-9);
  }
  // Figure 3(b): m = 64, the best group is 8, and the naive strategy is 3.2 times worse.
  const Bowtie sort{.inputs = 1, .outputs = 64, .memory_bytes = memory};
  EXPECT_NEAR(best_group_a2(64), 8, 1e-12);
  EXPECT_NEAR(run_bytes_a2_best(sort) / run_bytes_a2_naive(sort), 3.2, 0.02);
  // c = 1 and c = m are the two obvious ways, 2 M / (m + 1) with alpha = 1/2.
  EXPECT_NEAR(run_bytes_a2(sort, 1), 2 * M / 65, 1);
  EXPECT_NEAR(run_bytes_a2(sort, 64), 2 * M / 65, 1);
  // The example of section IV.B: a 3 x 100 interconnect has about M / 34, a merge of 3 to a file
  // and a distribution to 100 about M / 30 with the same data passing twice.
  const Bowtie interconnect{.inputs = 3, .outputs = 100, .memory_bytes = memory};
  EXPECT_NEAR(M / run_bytes_a6_half(interconnect), 34, 0.5);
  EXPECT_NEAR(M / best_run_bytes(interconnect), 34, 0.6);
  EXPECT_NEAR(M / run_bytes_a2_best({.inputs = 1, .outputs = 100, .memory_bytes = memory}), 30,
              0.5);
}

TEST(Theorems, TheBestGroupGainsAsMuchAsThePaperSays) {
  for (auto [m, gain] : {std::pair{16u, 1.36}, {64u, 1.6}, {256u, 1.78}}) {
    const Bowtie bowtie{.inputs = 1, .outputs = m, .memory_bytes = memory};
    const auto c = static_cast<uint32_t>(best_group_a2(m));
    EXPECT_NEAR(run_bytes_a2_best(bowtie) / run_bytes_a2(bowtie, 1), gain, 0.01) << m;
    // And with the group that the scheduler would choose.
    const Schedule best = best_schedule(bowtie);
    EXPECT_EQ(best.groups.outputs, c);
    EXPECT_NEAR(best.run_bytes / run_bytes_a2(bowtie, 1), gain, 0.01) << m;
  }
}

// One formula for all: the essay's claim.
TEST(Theorems, SidesGiveEveryTheorem) {
  Random random(1);
  for (int round = 0; round < 2000; ++round) {
    const auto c_r = static_cast<uint32_t>(random.below(9) + 1);
    const auto c_w = static_cast<uint32_t>(random.below(9) + 1);
    Bowtie b{.inputs = c_r * static_cast<uint32_t>(random.below(30) + 1),
             .outputs = c_w * static_cast<uint32_t>(random.below(30) + 1),
             .input_share = 0.05 + 0.9 * random.unit(),
             .memory_bytes = random.below(1 * TiB) + 1};
    auto expect = [&](Algorithm algorithm, Groups groups, double bytes) {
      EXPECT_NEAR(schedule_with(b, algorithm, groups).run_bytes / bytes, 1, 1e-9)
          << name_of(algorithm) << " " << b.inputs << " x " << b.outputs;
    };
    expect(Algorithm::a5, {c_r, c_w}, run_bytes_a5(b, c_r, c_w));
    if (b.inputs + b.outputs > 2) {
      expect(Algorithm::a6r, {1, c_w}, run_bytes_a6r(b, c_w));
      expect(Algorithm::a6w, {c_r, 1}, run_bytes_a6w(b, c_r));
    }
    b.outputs = 1;
    expect(Algorithm::a4, {c_r, 1}, run_bytes_a4(b, c_r));
    b.outputs = 0;
    if (b.inputs > 1) expect(Algorithm::a3, {}, run_bytes_a3(b));
    b.inputs = 0;
    b.outputs = c_w + 1;
    expect(Algorithm::a1, {}, run_bytes_a1(b));
    b.inputs = 1;
    b.outputs = c_w * 7;
    expect(Algorithm::a2, {1, c_w}, run_bytes_a2(b, c_w));
  }
}

TEST(Theorems, Alpha12MatchesTheoremsTenAndElevenAsPrinted) {
  const Bowtie b{.inputs = 24, .outputs = 60, .memory_bytes = memory};
  EXPECT_NEAR(run_bytes_a5(b, 3, 5), 4 * M / (8 * (8 + 12 + 2)), 1);  // (12)
  EXPECT_NEAR(run_bytes_a6r(b, 5), 4 * M / (6 * (24 + 12)), 1);       // (13), c_r = 1
  EXPECT_NEAR(run_bytes_a6w(b, 3), 4 * M / (4 * (8 + 60)), 1);        // (13), c_w = 1
  EXPECT_GT(run_bytes_a6r(b, 5), run_bytes_a5(b, 1, 5));              // Corollary 1
  EXPECT_GT(run_bytes_a6w(b, 3), run_bytes_a5(b, 3, 1));
}

// Theorems 12 and 13: the printed optimum is the best of all real groups, and the rule for the side
// is right.
TEST(Theorems, TheBestGroupsAreBest) {
  Random random(2);
  for (int round = 0; round < 300; ++round) {
    const Bowtie b{.inputs = static_cast<uint32_t>(random.below(300) + 1),
                   .outputs = static_cast<uint32_t>(random.below(300) + 1),
                   .input_share = 0.02 + 0.96 * random.unit(),
                   .memory_bytes = memory};
    double read = 0;
    double written = 0;
    for (double c = 1; c <= b.outputs; c *= 1.01) read = std::max(read, run_bytes_a6r(b, c));
    for (double c = 1; c <= b.inputs; c *= 1.01) written = std::max(written, run_bytes_a6w(b, c));
    // Theorem 13 chooses the side whose best group is above 1; the other may be better all the
    // same.
    EXPECT_GE(std::max(read, written) / run_bytes_a6_best(b), 1 - 1e-3);
    Bowtie half = b;
    half.input_share = 0.5;
    EXPECT_EQ(a6r_wins(half), b.outputs > b.inputs);
    EXPECT_NEAR(run_bytes_a6_half(half) / run_bytes_a6_best(half), 1, 1e-9);
    // Whole groups lose little, and A6 contains A2 and A4.
    EXPECT_GE(best_run_bytes(b), 0.94 * std::max(read, written));
    EXPECT_LE(best_run_bytes(b), 1.001 * std::max(read, written));
    EXPECT_LE(best_run_bytes(b), best_schedule(b).run_bytes * (1 + 1e-12));
    half.inputs = 1;
    EXPECT_NEAR(run_bytes_a6_best(half) / run_bytes_a2_best(half), 1, 1e-9);
  }
}

// Theorem 13 is wrong for few streams with reads and writes of different amounts. The smaller
// amount should be buffered, even if that side has as many streams; best_schedule compares.
TEST(Theorems, TheRuleOfTheoremThirteenFailsForFewStreams) {
  const Bowtie b{.inputs = 2, .outputs = 2, .input_share = 0.8, .memory_bytes = memory};
  EXPECT_FALSE(a6r_wins(b));
  EXPECT_GT(run_bytes_a6r(b, 1), 1.8 * run_bytes_a6_best(b));
  EXPECT_EQ(best_schedule(b).algorithm, Algorithm::a6r);
  EXPECT_GE(best_run_bytes(b), run_bytes_a6r(b, 1) * (1 - 1e-12));
}

TEST(Theorems, StaircasesFillTheMemoryAndDescendEvenly) {
  for (uint32_t streams : {1u, 2u, 8u, 100u}) {
    const Bowtie out{.outputs = streams, .memory_bytes = memory};
    const Bowtie in{.inputs = streams, .memory_bytes = memory};
    for (const auto& stairs : {staircase_a1(out), staircase_a3(in)}) {
      EXPECT_NEAR(sum(stairs) / M, 1, 1e-9);
      if (streams > 1) {
        EXPECT_NEAR(stairs.front(), 2 * M / streams, 1);
        EXPECT_NEAR(stairs.back(), 0, 1);
      }
    }
    for (uint32_t c = 1; c <= streams; ++c) {
      if (streams % c != 0) continue;
      const auto stairs =
          staircase_a2({.inputs = 1, .outputs = streams, .memory_bytes = memory}, c);
      EXPECT_EQ(stairs.size(), streams / c);
      EXPECT_NEAR(sum(stairs) / M, 1, 1e-9);
      EXPECT_NEAR(stairs.front() / stairs.back(), streams / c, 1e-6);
      EXPECT_EQ(stairs, staircase_a4({.inputs = streams, .outputs = 1, .memory_bytes = memory}, c));
    }
  }
}

TEST(Theorems, StaircasesOfSchedulesMatchTheTheorems) {
  auto expect_same = [&](const std::vector<double>& stairs, const std::vector<double>& theorem,
                         uint32_t group) {
    ASSERT_EQ(stairs.size(), theorem.size() * group);
    for (size_t i = 0; i < stairs.size(); ++i)
      EXPECT_NEAR(stairs[i], theorem[i / group] / group,
                  1e-3 * M / static_cast<double>(stairs.size()));
  };
  for (const uint32_t streams : {2u, 8u, 60u}) {
    const Bowtie d0{.outputs = streams, .memory_bytes = memory};
    expect_same(output_staircase(schedule_with(d0, Algorithm::a1, {})), staircase_a1(d0), 1);
    const Bowtie m0{.inputs = streams, .memory_bytes = memory};
    expect_same(input_staircase(schedule_with(m0, Algorithm::a3, {})), staircase_a3(m0), 1);
    for (uint32_t c = 1; c <= streams; ++c) {
      const Bowtie d1{.inputs = 1, .outputs = streams, .memory_bytes = memory};
      const Bowtie m1{.inputs = streams, .outputs = 1, .memory_bytes = memory};
      const Schedule a2 = schedule_with(d1, Algorithm::a2, {1, c});
      const Schedule a4 = schedule_with(m1, Algorithm::a4, {c, 1});
      EXPECT_TRUE(input_staircase(a2).empty());
      EXPECT_TRUE(output_staircase(a4).empty());
      // Whether or not the groups divide evenly: all of the side's memory, and none larger than the
      // one before.
      for (const auto& stairs : {output_staircase(a2), input_staircase(a4)}) {
        ASSERT_EQ(stairs.size(), streams);
        EXPECT_NEAR(sum(stairs) / M, 1, 1e-3);
        EXPECT_TRUE(std::is_sorted(stairs.rbegin(), stairs.rend()));
      }
      if (streams % c != 0) continue;
      expect_same(output_staircase(a2), staircase_a2(d1, c), c);
      expect_same(input_staircase(a4), staircase_a4(m1, c), c);
    }
  }
  const Schedule a6 =
      schedule_with({.inputs = 16, .outputs = 64, .memory_bytes = memory}, Algorithm::a6r, {1, 3});
  EXPECT_NEAR(sum(input_staircase(a6)) + sum(output_staircase(a6)), M, 1);
}

}  // namespace
}  // namespace penstock::papers
