// Test labels: one-thread, no-sanitizer, loops

#include "papers/bowtie/simulator.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>
#include <string>

#include "base/random.h"
#include "base/temporary_folder_fixture.h"
#include "base/trials.h"
#include "files/bowtie/computations.h"
#include "files/bowtie/spread_fixture.h"
#include "os/sanitizer.h"
#include "papers/bowtie/schedulers.h"
#include "papers/bowtie/theorems.h"
#include "penstock/base.h"

namespace penstock::papers {
namespace {

// Enough rounds of all streams for a steady state.
double bytes_for(const Schedule& schedule) {
  const double steps =
      std::max(static_cast<double>(schedule.bowtie.inputs) / schedule.groups.inputs,
               static_cast<double>(schedule.bowtie.outputs) / schedule.groups.outputs);
  return schedule.step_bytes * std::max(300.0, 25 * steps);
}

// Within one per cent if every stream has its share at every time; within two and a half if items
// fall at random, which moves the stairs by a part of their height.
void expect_run_length(const Schedule& schedule, double theory_bytes) {
  for (bool exact : {true, false}) {
    const auto result =
        simulate(schedule, BowtieRun{.bytes = bytes_for(schedule), .exact_shares = exact});
    ASSERT_TRUE(result.has_value());
    EXPECT_FALSE(result->stuck);
    EXPECT_NEAR(result->steady_run_bytes / theory_bytes, 1, exact ? 0.01 : 0.025)
        << fmt::format("{} {} x {} groups {} {} alpha {} exact {}", name_of(schedule.algorithm),
                       schedule.bowtie.inputs, schedule.bowtie.outputs, schedule.groups.inputs,
                       schedule.groups.outputs, schedule.bowtie.input_share, exact);
  }
}

// Section III: theorems 2, 4, 5, 7, 9.
TEST(Simulator, DistributionAndMergeRunAsTheTheoremsSay) {
  for (uint32_t streams : {2u, 3u, 8u, 64u, 250u}) {
    const Bowtie d0{.outputs = streams, .memory_bytes = 16 * GiB};
    expect_run_length(schedule_with(d0, Algorithm::a1, {}), run_bytes_a1(d0));
    const Bowtie m0{.inputs = streams, .memory_bytes = 16 * GiB};
    expect_run_length(schedule_with(m0, Algorithm::a3, {}), run_bytes_a3(m0));
    for (double alpha : {0.2, 0.5, 0.8}) {
      for (uint32_t c = 1; c <= streams; c *= 2) {
        if (streams % c != 0) continue;
        const Bowtie d1{
            .inputs = 1, .outputs = streams, .input_share = alpha, .memory_bytes = 16 * GiB};
        expect_run_length(schedule_with(d1, Algorithm::a2, {1, c}), run_bytes_a2(d1, c));
        const Bowtie m1{
            .inputs = streams, .outputs = 1, .input_share = alpha, .memory_bytes = 16 * GiB};
        expect_run_length(schedule_with(m1, Algorithm::a4, {c, 1}), run_bytes_a4(m1, c));
      }
    }
  }
}

// Section IV: theorems 10 to 13.
TEST(Simulator, InterconnectsRunAsTheTheoremsSay) {
  for (auto [n, m] : {std::pair{3u, 100u}, {100u, 3u}, {16u, 16u}, {40u, 100u}, {2u, 2u}}) {
    for (double alpha : {0.3, 0.5, 0.7}) {
      const Bowtie b{.inputs = n, .outputs = m, .input_share = alpha, .memory_bytes = 16 * GiB};
      for (uint32_t c : {1u, 2u, 4u, 5u}) {
        if (m % c == 0) {
          expect_run_length(schedule_with(b, Algorithm::a6r, {1, c}), run_bytes_a6r(b, c));
        }
        if (n % c == 0) {
          expect_run_length(schedule_with(b, Algorithm::a6w, {c, 1}), run_bytes_a6w(b, c));
        }
        if (m % c == 0 && n % c == 0) {
          expect_run_length(schedule_with(b, Algorithm::a5, {c, c}), run_bytes_a5(b, c, c));
        }
      }
    }
  }
}

void expect_staircase(const std::vector<double>& simulated, const std::vector<double>& theory,
                      uint32_t group) {
  ASSERT_EQ(simulated.size(), theory.size() * group);
  for (size_t g = 0; g < theory.size(); ++g) {
    double bytes = 0;
    for (uint32_t i = 0; i < group; ++i) bytes += simulated[g * group + i];
    // Within 5 % of the step; the last step of theorems 1 and 6 is nothing.
    EXPECT_NEAR(bytes, theory[g], 0.05 * theory[0]) << "stair " << g << " of " << theory.size();
  }
}

// Theorems 1, 3, 6, 8; figure 5(d).
TEST(Simulator, StaircasesMatchThePaper) {
  for (uint32_t streams : {4u, 8u, 16u, 64u}) {
    for (uint32_t c = 1; c <= streams / 2; c *= 2) {
      auto of = [&](const Schedule& schedule) {
        auto result =
            simulate(schedule, BowtieRun{.bytes = bytes_for(schedule), .record_staircases = true});
        EXPECT_TRUE(result.has_value());
        return *result;
      };
      const Bowtie d1{.inputs = 1, .outputs = streams, .memory_bytes = 16 * GiB};
      expect_staircase(of(schedule_with(d1, Algorithm::a2, {1, c})).output_staircase,
                       staircase_a2(d1, c), c);
      const Bowtie m1{.inputs = streams, .outputs = 1, .memory_bytes = 16 * GiB};
      expect_staircase(of(schedule_with(m1, Algorithm::a4, {c, 1})).input_staircase,
                       staircase_a4(m1, c), c);
      if (c > 1) continue;
      const Bowtie d0{.outputs = streams, .memory_bytes = 16 * GiB};
      expect_staircase(of(schedule_with(d0, Algorithm::a1, {})).output_staircase, staircase_a1(d0),
                       1);
      const Bowtie m0{.inputs = streams, .memory_bytes = 16 * GiB};
      expect_staircase(of(schedule_with(m0, Algorithm::a3, {})).input_staircase, staircase_a3(m0),
                       1);
    }
  }
}

TEST(Simulator, IsDeterministic) {
  const Schedule schedule = best_schedule({.inputs = 5, .outputs = 30, .memory_bytes = GiB});
  const auto first = simulate(schedule, BowtieRun{1e12, 7, &paper_array()});
  const auto second = simulate(schedule, BowtieRun{1e12, 7, &paper_array()});
  const auto other = simulate(schedule, BowtieRun{1e12, 8, &paper_array()});
  ASSERT_TRUE(first && second && other);
  EXPECT_EQ(first->seed, 7u);
  EXPECT_EQ(first->switches(), second->switches());
  EXPECT_EQ(first->seconds, second->seconds);
  EXPECT_EQ(first->run_bytes_max, second->run_bytes_max);
  EXPECT_NE(first->run_bytes_max, other->run_bytes_max);
}

// Equation 1, and a computation that is slower than the device.
TEST(Simulator, CountsTheTime) {
  const Schedule schedule = best_schedule({.inputs = 1, .outputs = 30, .memory_bytes = GiB});
  const DeviceProfile& array = paper_array();
  const auto result = simulate(schedule, BowtieRun{1e12, 1, &array});
  ASSERT_TRUE(result.has_value());
  const double equation = seconds_of({.read_bytes = result->read_bytes,
                                      .written_bytes = result->written_bytes,
                                      .switches = static_cast<double>(result->switches())},
                                     array, 1, 30);
  EXPECT_NEAR(result->seconds, equation, 1e-6 * equation);
  EXPECT_EQ(result->seconds_computing_alone, 0);
  // The prediction, which counts neither the first fill nor the last flush.
  EXPECT_NEAR(predict(schedule, 1e12, array).seconds / equation, 1, 0.02);

  auto scheduler = StairScheduler::open(schedule);
  ASSERT_TRUE(scheduler.has_value());
  SimulationOptions options;
  options.input_bytes = {500'000'000'000};
  options.outputs = 30;
  options.device = &array;
  options.compute_bytes_per_s = 1e9;
  auto workload = uniform_workload({.inputs = 1, .outputs = 30}, 0, 8);
  const SimulationResult slow = simulate(**scheduler, *workload, options);
  EXPECT_NEAR(slow.seconds,
              1000 + slow.written_bytes / array.write_bytes_per_s +
                  static_cast<double>(slow.switches()) * array.switch_seconds.at(1, 30),
              20);
  EXPECT_GT(slow.seconds_computing_alone, 0);
}

// Table I: how often the data pass, for all rows. (GB, M and input; STXXL, nsort, Tuxedo.)
struct Row {
  uint64_t memory;
  uint64_t input;
  double stxxl, nsort, ours;
};
constexpr Row table_1[] = {{1, 8, 1, 1.0, 1},    {2, 128, 1, 1.0, 1}, {2, 1024, 1, 1.8, 2},
                           {2, 8192, 2, 2.0, 2}, {8, 512, 1, 1.0, 1}, {8, 4096, 1, 1.1, 1},
                           {20, 1280, 1, 1.0, 1}};

TEST(Simulator, PassesMatchTableOne) {
  for (const Row& row : table_1) {
    SCOPED_TRACE(fmt::format("{} GB, {} GB of input", row.memory, row.input));
    const uint64_t bytes = row.input * GiB;
    const uint64_t memory = row.memory * GiB;
    const auto plan = plan_bowtie({.inputs = 1,
                                   .outputs = static_cast<uint32_t>(row.input / row.memory),
                                   .bytes = static_cast<double>(bytes),
                                   .memory_bytes = memory,
                                   .device = &paper_array()});
    ASSERT_TRUE(plan.has_value());
    EXPECT_EQ(plan->passes.size(), static_cast<size_t>(row.ours)) << plan->factors();
    EXPECT_NEAR(simulate(stxxl_merge(bytes, memory)).passes, row.stxxl, 0.001);
    // Printed with one digit.
    EXPECT_NEAR(simulate(nsort_like_merge(bytes, memory)).passes, row.nsort, 0.05);
  }
}

TEST(Simulator, FirstRowOfTableTwo) {
  const auto plan = plan_bowtie({.inputs = 1,
                                 .outputs = 8,
                                 .bytes = 8.0 * GiB,
                                 .memory_bytes = GiB,
                                 .device = &paper_array()});
  ASSERT_TRUE(plan.has_value());
  const auto ours = simulate(*plan, paper_array(), 1);
  ASSERT_TRUE(ours.has_value());
  EXPECT_EQ(ours->passes, 1u);
  EXPECT_NEAR(ours->read_bytes + ours->written_bytes, 16.0 * GiB, 1000);
  EXPECT_GE(simulate(stxxl_merge(8 * GiB, GiB)).switches / ours->switches, 66);
  EXPECT_NEAR(simulate(nsort_like_merge(8 * GiB, GiB)).switches / ours->switches, 178, 18);
}

// ---- The executor of src/files/bowtie.

TEST(Simulator, SwitchesAsOftenAsTheExecutorDoes) {
  if (os::shadowed) GTEST_SKIP() << "a computation that a sanitizer slows down ends rounds early";
  for (auto [n, m] : {std::pair{1u, 16u}, {1u, 64u}, {12u, 1u}, {12u, 0u}, {6u, 10u}}) {
    const TemporaryFolder folder;
    const uint64_t bytes = 48 * MiB;
    std::vector<Input> inputs;
    for (uint32_t i = 0; i < n; ++i) {
      inputs.push_back({.path = folder / fmt::format("in{}", i)});
      std::ofstream(inputs.back().path) << std::string(bytes / n / 4096 * 4096, '\0');
    }
    std::vector<Output> outputs;
    for (uint32_t j = 0; j < m; ++j) outputs.push_back({.path = folder / fmt::format("out{}", j)});
    const auto result = run(std::move(inputs), std::move(outputs), spread(n * 7 + m),
                            {.memory_bytes = 6 * MiB, .block_bytes = 4096, .comeback_blocks = 0});
    ASSERT_TRUE(result.has_value()) << result.error().message();
    const double moved = static_cast<double>(result->bytes_read + result->bytes_written);
    const auto simulated = simulate(result->schedule, BowtieRun{.bytes = moved, .seed = 3});
    ASSERT_TRUE(simulated.has_value());
    const auto ours = static_cast<double>(result->switches());
    const auto theirs = static_cast<double>(simulated->switches());
    EXPECT_NEAR(ours / theirs, 1, 0.1) << fmt::format("{} x {}: {} and {}, {}", n, m, ours, theirs,
                                                      name_of(result->schedule.algorithm));
  }
}

TEST(BlockScheduler, DrivesTheExecutorToo) {
  constexpr uint32_t inputs = 12;
  constexpr size_t block_bytes = 4096;
  const TemporaryFolder folder;
  Random random(seed_of_run());
  std::vector<uint64_t> all;
  std::vector<Input> files;
  for (uint32_t i = 0; i < inputs; ++i) {
    std::vector<uint64_t> numbers(random.below(50'000));
    std::ranges::generate(numbers, [&] { return random.next(); });
    std::ranges::sort(numbers);
    files.push_back({.path = folder / fmt::format("in{}", i)});
    std::ofstream(files.back().path, std::ios::binary)
        .write(reinterpret_cast<const char*>(numbers.data()),
               static_cast<std::streamsize>(numbers.size() * sizeof(uint64_t)));
    all.insert(all.end(), numbers.begin(), numbers.end());
  }
  std::ranges::sort(all);
  const uint64_t batch_bytes = 16 * block_bytes;
  BlockScheduler scheduler(
      {.inputs = inputs, .block_bytes = block_bytes, .write_batch_bytes = batch_bytes});
  const auto result =
      run(std::move(files), {{.path = folder / "out"}}, merge({.type = items::Type::u64}, {}),
          {.memory_bytes = batch_bytes + (3 * inputs + 5) * block_bytes,
           .block_bytes = block_bytes,
           .comeback_blocks = 0,
           .scheduler = &scheduler});
  ASSERT_TRUE(result.has_value()) << result.error().message();
  std::vector<uint64_t> merged(all.size() + 1);
  std::ifstream out(folder / "out", std::ios::binary);
  out.read(reinterpret_cast<char*>(merged.data()),
           static_cast<std::streamsize>(merged.size() * sizeof(uint64_t)));
  merged.resize(static_cast<size_t>(out.gcount()) / sizeof(uint64_t));
  EXPECT_TRUE(merged == all) << "seed " << seed_of_run();
}

}  // namespace
}  // namespace penstock::papers
