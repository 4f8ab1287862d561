// Do the schedules run as the theorems say?
//
// The policies of A1 to A6 drive an imagined device (papers/bowtie/simulator.h), and the mean run
// length between two switches is compared with the closed forms, over a grid of streams, groups,
// shares and memories: figures 3 and 4 of the paper. Every stream has exactly its share at every
// time, as in the theorems; a second ratio has random items. Then come the staircases (theorems 1,
// 3, 6, 8; figure 5d), the worked examples, and the loss of a merge without maintained staircase.
// Nothing is timed.
//
// Source: "On High-Latency Bowtie Data Streaming", sections III to V.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "bench/harness/bench.h"
#include "files/bowtie/planner.h"
#include "papers/bowtie/schedulers.h"
#include "papers/bowtie/simulator.h"
#include "papers/bowtie/theorems.h"
#include "penstock/base.h"

namespace penstock::bench {
namespace {

using namespace penstock::papers;  // includes penstock::bowtie

double rounds_of(const Schedule& schedule) {
  return std::max(static_cast<double>(schedule.bowtie.inputs) / schedule.groups.inputs,
                  static_cast<double>(schedule.bowtie.outputs) / schedule.groups.outputs);
}

class Experiment {
 public:
  explicit Experiment(bool quick) : quick_(quick) {}

  // Mean bytes between two switches in the steady state.
  double simulated(const Schedule& schedule, bool exact_shares) {
    const double steps = std::max(quick_ ? 150.0 : 300.0, (quick_ ? 12 : 25) * rounds_of(schedule));
    const auto result = simulate(
        schedule, BowtieRun{.bytes = schedule.step_bytes * steps, .exact_shares = exact_shares});
    if (!result || result->stuck) return 0;
    report.hash(result->switches());
    return result->steady_run_bytes;
  }

  // Checks one point of the grid, with its error; `theory_bytes` is the theorem's own closed form.
  void check(const Schedule& schedule, double theory_bytes) {
    const double exact = simulated(schedule, true) / theory_bytes;
    worst_exact = std::max(worst_exact, std::abs(exact - 1));
    worst_random = std::max(worst_random, std::abs(simulated(schedule, false) / theory_bytes - 1));
    ++points;
  }

  void row(const std::string& what, const Schedule& schedule, double theory_bytes) {
    const double bytes = simulated(schedule, false);
    report.add(what + ", simulated", "MB", {bytes / 1e6});
    report.add(what + ", theorem", "MB", {theory_bytes / 1e6});
  }

  // Checks the largest difference to a theorem's stairs, relative to the highest.
  void check_stairs(const Schedule& schedule, const std::vector<double>& theory, bool inputs) {
    const double steps = std::max(200.0, 20 * rounds_of(schedule));
    const auto result = simulate(
        schedule, BowtieRun{.bytes = schedule.step_bytes * steps, .record_staircases = true});
    if (!result) return;
    const auto& stairs = inputs ? result->input_staircase : result->output_staircase;
    const size_t group = stairs.size() / theory.size();
    for (size_t g = 0; g < theory.size(); ++g) {
      double bytes = 0;
      for (size_t i = 0; i < group; ++i) bytes += stairs[g * group + i];
      worst_stair = std::max(worst_stair, std::abs(bytes - theory[g]) / theory[0]);
    }
  }

  Report report;
  double worst_exact = 0;
  double worst_random = 0;
  double worst_stair = 0;
  double points = 0;

 private:
  bool quick_;
};

Result<Report> run_bowtie_model(const Options& options) {
  Experiment experiment(options.quick);
  const uint64_t memory = 16'000'000'000;

  // Figure 3(a): distribution from memory, compared with memory divided evenly.
  for (uint32_t m : {2u, 4u, 16u, 64u, 256u}) {
    const Bowtie b{.outputs = m, .memory_bytes = memory};
    const std::string what = fmt::format("figure 3a, A1 m={:3}", m);
    experiment.row(what, schedule_with(b, Algorithm::a1, {}), run_bytes_a1(b));
    experiment.report.add(what + ", memory shared evenly", "MB", {run_bytes_a1_naive(b) / 1e6});
  }
  // Figure 3(b): distribution from a file, m = 64.
  for (uint32_t c : {1u, 2u, 4u, 8u, 16u, 32u, 64u}) {
    const Bowtie b{.inputs = 1, .outputs = 64, .memory_bytes = memory};
    experiment.row(fmt::format("figure 3b, A2 m=64 c={:2}", c),
                   schedule_with(b, Algorithm::a2, {1, c}), run_bytes_a2(b, c));
  }
  // Figure 4: interconnects and their groups.
  for (auto [n, m] : {std::pair{4u, 100u}, {100u, 4u}}) {
    const Bowtie b{.inputs = n, .outputs = m, .memory_bytes = memory};
    for (uint32_t c : {1u, 2u, 5u, 10u, 20u, 50u, 100u}) {
      const std::string what = fmt::format("figure 4, {} x {}", n, m);
      if (m >= n) {
        experiment.row(fmt::format("{} A6r c_w={:3}", what, c),
                       schedule_with(b, Algorithm::a6r, {1, c}), run_bytes_a6r(b, c));
      } else {
        experiment.row(fmt::format("{} A6w c_r={:3}", what, c),
                       schedule_with(b, Algorithm::a6w, {c, 1}), run_bytes_a6w(b, c));
      }
    }
  }

  // The grid. Groups divide, as the theorems require.
  const std::vector<uint32_t> streams =
      options.quick ? std::vector<uint32_t>{2, 8, 64} : std::vector<uint32_t>{2, 3, 8, 64, 250};
  const std::vector<double> shares =
      options.quick ? std::vector<double>{0.5} : std::vector<double>{0.2, 0.5, 0.8};
  for (uint64_t bytes : {uint64_t{100'000'000}, memory}) {
    for (uint32_t j : streams) {
      const Bowtie d0{.outputs = j, .memory_bytes = bytes};
      experiment.check(schedule_with(d0, Algorithm::a1, {}), run_bytes_a1(d0));
      const Bowtie m0{.inputs = j, .memory_bytes = bytes};
      experiment.check(schedule_with(m0, Algorithm::a3, {}), run_bytes_a3(m0));
      for (double alpha : shares) {
        for (uint32_t c = 1; c <= j; c *= 2) {
          if (j % c != 0) continue;
          const Bowtie d1{.inputs = 1, .outputs = j, .input_share = alpha, .memory_bytes = bytes};
          experiment.check(schedule_with(d1, Algorithm::a2, {1, c}), run_bytes_a2(d1, c));
          const Bowtie m1{.inputs = j, .outputs = 1, .input_share = alpha, .memory_bytes = bytes};
          experiment.check(schedule_with(m1, Algorithm::a4, {c, 1}), run_bytes_a4(m1, c));
        }
      }
    }
    const std::vector<std::pair<uint32_t, uint32_t>> shapes =
        options.quick ? std::vector<std::pair<uint32_t, uint32_t>>{{3, 100}, {16, 16}}
                      : std::vector<std::pair<uint32_t, uint32_t>>{
                            {3, 100}, {100, 3}, {16, 16}, {40, 100}, {2, 2}};
    for (auto [n, m] : shapes) {
      for (double alpha : shares) {
        const Bowtie b{.inputs = n, .outputs = m, .input_share = alpha, .memory_bytes = bytes};
        for (uint32_t c : {1u, 2u, 4u, 5u}) {
          if (m % c == 0)
            experiment.check(schedule_with(b, Algorithm::a6r, {1, c}), run_bytes_a6r(b, c));
          if (n % c == 0)
            experiment.check(schedule_with(b, Algorithm::a6w, {c, 1}), run_bytes_a6w(b, c));
          if (m % c == 0 && n % c == 0)
            experiment.check(schedule_with(b, Algorithm::a5, {c, c}), run_bytes_a5(b, c, c));
        }
      }
    }
  }

  // Staircases; figure 5(d) is the one of 8 GB sorted with 1 GB, in groups.
  for (uint32_t j : {8u, 16u, 64u}) {
    const Bowtie d0{.outputs = j, .memory_bytes = memory};
    const Bowtie m0{.inputs = j, .memory_bytes = memory};
    experiment.check_stairs(schedule_with(d0, Algorithm::a1, {}), staircase_a1(d0), false);
    experiment.check_stairs(schedule_with(m0, Algorithm::a3, {}), staircase_a3(m0), true);
    for (uint32_t c = 1; c <= j / 2; c *= 2) {
      const Bowtie d1{.inputs = 1, .outputs = j, .memory_bytes = memory};
      const Bowtie m1{.inputs = j, .outputs = 1, .memory_bytes = memory};
      experiment.check_stairs(schedule_with(d1, Algorithm::a2, {1, c}), staircase_a2(d1, c), false);
      experiment.check_stairs(schedule_with(m1, Algorithm::a4, {c, 1}), staircase_a4(m1, c), true);
    }
  }
  Report& report = experiment.report;
  const Schedule sort = schedule_with({.inputs = 1, .outputs = 8, .memory_bytes = 1'000'000'000},
                                      Algorithm::a2, {1, 2});
  const auto stairs =
      simulate(sort, BowtieRun{.bytes = sort.step_bytes * 500, .record_staircases = true});
  if (stairs) {
    const auto theory = staircase_a2(sort.bowtie, 2);
    for (size_t g = 0; g < theory.size(); ++g) {
      report.add(fmt::format("figure 5d, M=1 GB, 8 outputs, group {} of 4, simulated", g + 1), "MB",
                 {(stairs->output_staircase[2 * g] + stairs->output_staircase[2 * g + 1]) / 1e6});
      report.add(fmt::format("figure 5d, M=1 GB, 8 outputs, group {} of 4, theorem 3", g + 1), "MB",
                 {theory[g] / 1e6});
    }
  }

  // The worked examples.
  for (auto [m, paper] : {std::pair{16u, 1.36}, {64u, 1.6}, {256u, 1.78}}) {
    const Bowtie b{.inputs = 1, .outputs = m, .memory_bytes = memory};
    const double gain = experiment.simulated(best_schedule(b), false) /
                        experiment.simulated(schedule_with(b, Algorithm::a2, {1, 1}), false);
    report.add(fmt::format("gain of c = sqrt(m) over c = 1, m={}, simulated (paper: {})", m, paper),
               "x", {gain});
  }
  const Schedule cross = best_schedule({.inputs = 3, .outputs = 100, .memory_bytes = memory});
  report.add("3 x 100 interconnect, memory over run length, simulated (paper: 34)", "x",
             {static_cast<double>(memory) / experiment.simulated(cross, false)});

  // The need for the staircase: the same merges, refilled as the paper words it.
  for (uint32_t n : {3u, 16u, 64u}) {
    const Bowtie b{.inputs = n, .memory_bytes = memory};
    SimulationOptions run;
    run.input_bytes.assign(n, static_cast<uint64_t>(run_bytes_a3(b) * 25));
    auto of_theory = [&](Scheduler& scheduler) {
      const auto workload = uniform_workload({.inputs = n}, static_cast<double>(memory) / 16, 8);
      return simulate(scheduler, *workload, run).steady_run_bytes / run_bytes_a3(b);
    };
    FillingScheduler filling({.inputs = n, .memory_bytes = memory, .block_bytes = 4096});
    auto kept = StairScheduler::open(best_schedule(b), {.block_bytes = 4096});
    if (!kept) return std::unexpected(kept.error());
    report.add(fmt::format("A3 n={:2}, run length of theorem 7, \"fill the memory\"", n), "x",
               {of_theory(filling)});
    report.add(fmt::format("A3 n={:2}, run length of theorem 7, one stair above the highest", n),
               "x", {of_theory(**kept)});
  }

  report.add("points of the grid", "", {experiment.points});
  report.ratio("worst_theorem_error", experiment.worst_exact);
  report.ratio("worst_theorem_error_random_items", experiment.worst_random);
  report.ratio("worst_staircase_error", experiment.worst_stair);
  return std::move(report);
}

const Registration registration{"bowtie-model",
                                "do the schedules between many files run as the theorems say",
                                run_bowtie_model};

}  // namespace
}  // namespace penstock::bench
