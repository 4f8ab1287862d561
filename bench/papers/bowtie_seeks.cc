// How often does a sort larger than memory make the device go to another file?
//
// The seven sorts of the paper's tables I and II, in simulation: ours (the planner's passes, the
// schedules of A2), STXXL (blocks of 2 MiB in the order of need, half of the memory to sort) and an
// approximation of nsort (smaller blocks, partly merged twice). Only the phase after the sorted
// runs, or before the sorted buckets, is counted. The device is the paper's array, as far as it can
// be reconstructed (src/files/bowtie/device_profile.cc); the predicted rate is beside the measured
// one of table III; a row says if the model with its constant switch delay is faster. Nothing is
// timed.
//
// Source: "On High-Latency Bowtie Data Streaming", section VII.B.

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "bench/harness/bench.h"
#include "files/bowtie/planner.h"
#include "papers/bowtie/simulator.h"
#include "penstock/base.h"

namespace penstock::bench {
namespace {

using namespace penstock::papers;  // includes penstock::bowtie

// GB; the passes of table I; the rates of table III in MB/s (STXXL, nsort, Tuxedo).
struct TableRow {
  uint64_t memory;
  uint64_t input;
  double passes[3];
  double rates[3];
};
constexpr TableRow table[] = {
    {1, 8, {1, 1.0, 1}, {599, 207, 2962}},     {2, 128, {1, 1.0, 1}, {381, 213, 2114}},
    {2, 1024, {1, 1.8, 2}, {367, 112, 1350}},  {2, 8192, {2, 2.0, 2}, {187, 86, 1010}},
    {8, 512, {1, 1.0, 1}, {382, 198, 2881}},   {8, 4096, {1, 1.1, 1}, {355, 177, 1891}},
    {20, 1280, {1, 1.0, 1}, {372, 188, 3297}},
};

Result<Report> run_bowtie_seeks(const Options& options) {
  Report report;
  const DeviceProfile& array = paper_array();
  double wrong_passes = 0;
  double least = 1e300;
  for (const TableRow& row : table) {
    if (options.quick && row.input > 1024) continue;
    const uint64_t memory = row.memory * GiB;
    const uint64_t bytes = row.input * GiB;
    const std::string name = fmt::format("M={} N={}", row.memory, row.input);

    const auto plan = plan_bowtie({.inputs = 1,
                                   .outputs = static_cast<uint32_t>(row.input / row.memory),
                                   .bytes = static_cast<double>(bytes),
                                   .memory_bytes = memory,
                                   .device = &array});
    if (!plan) return std::unexpected(plan.error());
    const auto ours = simulate(*plan, array, 1);
    if (!ours) return std::unexpected(ours.error());
    const BlockMergeResult stxxl = simulate(stxxl_merge(bytes, memory));
    const BlockMergeResult nsort = simulate(nsort_like_merge(bytes, memory));

    report.add(
        fmt::format("{} passes, ours ({}; table I: {})", name, plan->factors(), row.passes[2]), "",
        {static_cast<double>(ours->passes)});
    report.add(fmt::format("{} passes, STXXL (table I: {})", name, row.passes[0]), "",
               {stxxl.passes});
    report.add(fmt::format("{} passes, nsort-like (table I: {})", name, row.passes[1]), "",
               {nsort.passes});
    wrong_passes += ours->passes != static_cast<uint32_t>(row.passes[2]);
    wrong_passes += std::abs(stxxl.passes - row.passes[0]) > 0.05;
    wrong_passes += std::abs(nsort.passes - row.passes[1]) > 0.05;
    report.add(name + " switches, ours", "", {ours->switches});
    report.add(name + " switches, ours, predicted by the plan", "", {plan->switches});
    report.add(name + " switches, STXXL", "", {stxxl.switches});
    report.add(name + " switches, nsort-like", "", {nsort.switches});
    const double moved = 2 * static_cast<double>(bytes);
    report.add(fmt::format("{} rate by equation 1, ours (table III: {})", name, row.rates[2]),
               "MB/s", {moved / ours->seconds / 1e6});
    const double stxxl_seconds = bowtie::seconds_of({.read_bytes = stxxl.moved_bytes / 2,
                                                     .written_bytes = stxxl.moved_bytes / 2,
                                                     .switches = stxxl.switches},
                                                    array, 64, 1);
    report.add(fmt::format("{} rate by equation 1, STXXL (table III, helped by a cache: {})", name,
                           row.rates[0]),
               "MB/s", {moved / stxxl_seconds / 1e6});

    report.hash(static_cast<uint64_t>(ours->switches));
    report.hash(static_cast<uint64_t>(stxxl.switches));
    report.hash(static_cast<uint64_t>(nsort.switches));
    const double factor = stxxl.switches / ours->switches;
    least = std::min(least, factor);
    if (row.input == 8) report.ratio("stxxl_over_ours_first_row", factor);
    report.ratio(fmt::format("stxxl_over_ours_m{}_n{}", row.memory, row.input), factor);
    report.ratio(fmt::format("nsort_like_over_ours_m{}_n{}", row.memory, row.input),
                 nsort.switches / ours->switches);
  }
  report.ratio("stxxl_over_ours_min", least);
  report.add("passes that differ from table I", "", {wrong_passes});
  return report;
}

const Registration registration{
    "bowtie-seeks", "switches between files of sorts larger than memory, ours and two rivals'",
    run_bowtie_seeks};

}  // namespace
}  // namespace penstock::bench
