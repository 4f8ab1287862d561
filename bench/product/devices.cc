// Is any other sort faster than ours on a disk that is not here?
//
// `penstock compare` runs each program under trace, and then moves its disk requests to another
// disk: a model of it (`devices`), or this one slowed down to it (`devices-emulated`). Ours knows
// the disk by a profile, as a user would pass it; the others have no such option. So only the
// disk's time is compared, without the processor's. Inputs are half of the memory, and 2, 6 and 20
// times as large.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <ranges>
#include <string>
#include <vector>

#include "bench/harness/bench.h"
#include "bench/harness/child.h"
#include "bench/harness/generate.h"
#include "bench/harness/scratch.h"

namespace penstock::bench {
namespace {

struct Input {
  std::string format;
  std::vector<std::string> programs;  // ours first
};

struct Grid {
  std::vector<std::string> where;  // words of `penstock compare`, before the device's name
  std::vector<std::string> devices = {"hdd", "sata-ssd", "nvme", "array24"};
  uint64_t memory_bytes = 64 * MiB;
  std::vector<double> multiples = {0.5, 2, 6, 20};
  std::vector<Input> inputs = {{"lines", {"penstock", "gnu-sort"}},
                               {"u64", {"penstock", "stxxl", "duckdb"}}};
};

class Bench {
 public:
  Bench(const Options& options, const Grid& grid, const Scratch& scratch)
      : options_(options), grid_(grid), scratch_(scratch) {}

  Status run() {
    for (const Input& input : grid_.inputs) {
      for (const double multiple : grid_.multiples) {
        const double bytes = multiple * static_cast<double>(grid_.memory_bytes);
        const auto items = generate(options_.program, input.format, static_cast<uint64_t>(bytes),
                                    scratch_.file("input"));
        if (!items) return std::unexpected(items.error());
        report_.hash(*items);
        for (const std::string& device : grid_.devices) {
          const std::string cell =
              fmt::format("{}, {} x memory, {}", input.format, multiple, device);
          if (Status done = compare(input, device, cell); !done) return done;
        }
      }
    }
    for (const auto& [device, ratio] : least_of_) report_.ratio("vs_best_rival_" + device, ratio);
    if (!least_of_.empty())
      report_.ratio("vs_best_rival_min", std::ranges::min(std::views::values(least_of_)));
    return {};
  }
  Report take_report() { return std::move(report_); }

 private:
  Status compare(const Input& input, const std::string& device, const std::string& cell) {
    std::vector<std::string> words = {options_.program,
                                      "compare",
                                      "--json",
                                      "--input",
                                      scratch_.file("input"),
                                      "--format",
                                      input.format,
                                      "--memory",
                                      fmt::format("{}b", grid_.memory_bytes),
                                      "--work",
                                      scratch_.folder()};
    words.insert(words.end(), grid_.where.begin(), grid_.where.end());
    words.push_back(device);
    words.insert(words.end(), input.programs.begin(), input.programs.end());
    std::map<std::string, std::vector<double>> seconds;
    for (unsigned run = 0; run < options_.runs_or(1); ++run) {
      const auto done = run_child(words);
      if (!done) return std::unexpected(done.error());
      const auto told = nlohmann::json::parse(done->output, nullptr, false);
      if (told.is_discarded())
        return failure(ErrorCode::corrupt, "read what the comparison tells", "--json");
      // A program that is missing, or cannot work in so little memory, has a problem and no time.
      for (const auto& program : told.at("programs")) {
        if (program.contains("seconds"))
          seconds[program.at("program")].push_back(program.at("seconds"));
      }
    }
    double ours = 0;
    double best = 0;
    for (auto& [program, times] : seconds) {
      const double median = report_.add(fmt::format("{}: {}", cell, program), "s", times);
      if (program == input.programs.front()) {
        ours = median;
      } else if (best == 0 || median < best) {
        best = median;
      }
    }
    if (ours == 0 || best == 0) return {};
    report_.add(cell + ": best rival over ours", "", {best / ours});
    double& least = least_of_.try_emplace(device, best / ours).first->second;
    least = std::min(least, best / ours);
    return {};
  }

  const Options& options_;
  const Grid& grid_;
  const Scratch& scratch_;
  Report report_;
  std::map<std::string, double> least_of_;
};

Result<Report> run(const Options& options, Grid grid, bool here) {
  auto scratch = Scratch::make(options.directory);
  if (!scratch) return std::unexpected(scratch.error());
  if (here) grid.where.insert(grid.where.begin(), {"--on", scratch->folder()});
  if (options.quick) {
    grid.devices = {"nvme"};
    grid.memory_bytes = 32 * MiB;
    grid.multiples = {1.5};
  }
  Bench bench(options, grid, *scratch);
  if (Status done = bench.run(); !done) return std::unexpected(done.error());
  return bench.take_report();
}

const Registration simulated{
    "devices", "sorts on models of slower and faster disks, beside others' there",
    [](const Options& options) { return run(options, {.where = {"--simulate"}}, false); }};
// The largest inputs are left out, because a hard disk takes minutes for each.
const Registration emulated{
    "devices-emulated", "the same on this disk, slowed down to others", [](const Options& options) {
      return run(options,
                 {.where = {"--emulate"}, .devices = {"hdd", "sata-ssd"}, .multiples = {0.5, 2, 6}},
                 true);
    }};

}  // namespace
}  // namespace penstock::bench
