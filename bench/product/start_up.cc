// The time of a command without work: scripts start programs by the thousand.

#include <utility>

#include "bench/harness/bench.h"
#include "bench/harness/child.h"
#include "bench/harness/scratch.h"
#include "io/file.h"

namespace penstock::bench {
namespace {

constexpr double version_goal_s = 0.010;
constexpr double empty_sort_goal_s = 0.020;

Result<Report> run(const Options& options) {
  auto scratch = Scratch::make(options.directory);
  if (!scratch) return std::unexpected(scratch.error());
  const std::string empty = scratch->file("empty");
  auto file = io::File::create_output(empty, {});
  if (!file) return std::unexpected(file.error());
  if (auto written = file->publish(); !written) return std::unexpected(written.error());

  const std::pair<const char*, std::vector<std::string>> commands[] = {
      {"penstock --version", {options.program, "--version"}},
      {"penstock sort of an empty file", {options.program, "sort", empty}},
      {"GNU sort of an empty file", {"sort", empty}}};
  std::vector<double> milliseconds[std::size(commands)];
  for (unsigned turn = 0; turn < options.runs_or(51); ++turn) {
    for (size_t i = 0; i < std::size(commands); ++i) {
      const auto done = run_child(commands[i].second);
      if (!done) return std::unexpected(done.error());
      milliseconds[i].push_back(1000 * done->seconds);
    }
  }
  Report report;
  double medians[std::size(commands)];
  for (size_t i = 0; i < std::size(commands); ++i)
    medians[i] = report.add(commands[i].first, "ms", milliseconds[i]);
  report.ratio("version_vs_goal", 1000 * version_goal_s / medians[0]);
  report.ratio("empty_sort_vs_goal", 1000 * empty_sort_goal_s / medians[1]);
  report.ratio("empty_sort_vs_gnu_sort", medians[2] / medians[1]);
  return report;
}

const Registration registration{"start-up", "how long a command takes that has nothing to do", run};

}  // namespace
}  // namespace penstock::bench
