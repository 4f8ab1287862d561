// Test labels: one-thread

#include "files/bowtie/model.h"

#include <gtest/gtest.h>

#include <cmath>

#include "penstock/base.h"

namespace penstock::bowtie {
namespace {

constexpr uint64_t memory = 16 * GiB;
constexpr double M = 16.0 * GiB;

// If groups do not divide, the stairs equal a count of the bytes in each bucket over a round.
TEST(Model, GroupsThatDoNotDivide) {
  for (uint32_t m = 1; m <= 60; ++m) {
    for (uint32_t c = 1; c <= m; ++c) {
      const uint32_t groups = groups_of(m, c);
      double stairs = 0;  // M over the bytes of a step, both in rounds
      uint32_t before = 0;
      for (uint32_t g = 0; g < groups; ++g) {
        const uint32_t size = group_size(m, groups, g);
        EXPECT_LE(size, c);
        EXPECT_GE(size + 1, (m + groups - 1) / groups);
        // The group written last has filled for the whole round, the others since their turns.
        stairs += size * (before + size) / static_cast<double>(m) / m;
        before += size;
      }
      EXPECT_EQ(before, m);
      EXPECT_NEAR(grouped_side(m, c).stairs, stairs * groups, 1e-9) << m << " " << c;
      EXPECT_NEAR(grouped_side(m, c).switches, static_cast<double>(m) / groups, 1e-12);
      if (m % c == 0) {
        EXPECT_NEAR(grouped_side(m, c).stairs, (m / c + 1) / 2.0, 1e-12);
      }
    }
  }
}

TEST(Model, OneStreamIsNeverLeft) {
  EXPECT_TRUE(std::isinf(best_run_bytes({.outputs = 1, .memory_bytes = 1})));
  EXPECT_TRUE(std::isinf(best_run_bytes({.inputs = 1, .memory_bytes = 1})));
  const Prediction copy =
      predict({.inputs = 1, .memory_bytes = MiB}, 1e9, *find_profile("hard-disk"));
  EXPECT_EQ(copy.traffic.switches, 1);
  // All of the memory is used: reading M and writing M in turn.
  EXPECT_NEAR(best_run_bytes({.inputs = 1, .outputs = 1, .memory_bytes = memory}), M, 1);
}

TEST(Model, TimeIsBytesOverSpeedsAndSwitches) {
  DeviceProfile device{.name = "test",
                       .read_bytes_per_s = 100,
                       .write_bytes_per_s = 50,
                       .switch_seconds = SwitchDelay(2)};
  EXPECT_DOUBLE_EQ(
      seconds_of({.read_bytes = 1000, .written_bytes = 500, .switches = 7}, device, 3, 4), 34);
  // Equation 2 is the inverse of equation 1.
  const Bowtie b{.inputs = 3, .outputs = 4, .input_share = 0.25, .memory_bytes = memory};
  const double bytes = 1e15;
  const Prediction p = predict(b, bytes, device);
  EXPECT_NEAR(p.throughput_bytes_per_s / bytes_per_s(b, p.schedule.run_bytes, device), 1, 1e-9);
}

TEST(Model, PredictionsSayWhatTheyDoNotCover) {
  const DeviceProfile& array = paper_array();
  // Section VII.B: with 2 GB of cache, equation 2 is accurate for all m once there is 1 GB of
  // memory.
  for (uint32_t m : {8u, 64u, 512u, 4096u}) {
    EXPECT_FALSE(predict({.inputs = 1, .outputs = m, .memory_bytes = 2 * GiB}, 1e15, array)
                     .cache_may_hide_switches)
        << m;
  }
  const Prediction small =
      predict({.inputs = 1, .outputs = 64, .memory_bytes = 100 * MiB}, 1e15, array);
  EXPECT_TRUE(small.cache_may_hide_switches);
  EXPECT_TRUE(small.hides(2 * GiB));
  EXPECT_FALSE(small.hides(1 * MiB));
  EXPECT_EQ(small.beyond_model().size(), 1u);
  const Prediction brief = predict({.inputs = 1, .outputs = 64, .memory_bytes = GiB}, 4e9, array);
  EXPECT_TRUE(brief.too_short_for_steady_state);
  const Prediction crowded =
      predict({.inputs = 1000, .outputs = 1000, .memory_bytes = MiB}, 1e12, array);
  EXPECT_TRUE(crowded.run_below_block);
}

// M_r and M_w are the needs of the two staircases, and add up to the memory.
TEST(Model, SchedulesDivideTheMemory) {
  const Schedule s =
      schedule_with({.inputs = 16, .outputs = 64, .memory_bytes = memory}, Algorithm::a6r, {1, 2});
  EXPECT_EQ(s.input_memory_bytes + s.output_memory_bytes, memory);
  // s_r = 15 / 2, s_w = 33 / 2.
  EXPECT_NEAR(static_cast<double>(s.input_memory_bytes) / M, 15.0 / 48, 1e-6);
  const Schedule sort = best_schedule({.inputs = 1, .outputs = 64, .memory_bytes = memory});
  EXPECT_LT(sort.input_memory_bytes, MiB);
}

}  // namespace
}  // namespace penstock::bowtie
