// The cost of sorting NaNs last, and the speed of sorting doubles compared with others.
//
// 2^25 doubles of both signs in random order, on one thread; 0 % or 10 % are NaN, half of these
// with a sign. `<` does not order NaNs: sorts that compare by it get only the numbers, after a
// std::partition() of the array, whose time counts. For comparison, our sort of the same bits as
// u64, whose order costs nothing, because keys are used unchanged. (That of doubles flips a sign or
// all bits of each key, and subtracts one constant, for NaNs: src/sorting/scatter/key_order.h.)
//
// Every result is verified: numbers in order, -0 before 0, then NaNs, as many as before. A rival
// whose result is wrong is out, with a row; a wrong result of ours ends the bench. (Rivals may keep
// -0 and 0 in any order.)

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/random.h"
#include "bench/harness/bench.h"
#include "bench/rivals/sorts.h"
#include "penstock/sort.h"

namespace penstock::bench {
namespace {

std::vector<double> numbers(size_t count, unsigned percent_nan) {
  std::vector<double> made(count);
  Random random(percent_nan + 1);
  for (double& number : made) {
    const uint64_t bits = random.next();
    number = (static_cast<double>(bits >> 12) - 0x1p51) * 0x1p-20;
    if (random.below(100) >= percent_nan) continue;
    number = std::copysign(std::numeric_limits<double>::quiet_NaN(), number);
  }
  return made;
}

struct Outcome {
  bool sorted = false;
  uint64_t sum = 0;
};

Outcome outcome_of(const std::vector<double>& items, size_t nans, bool by_bits) {
  Outcome outcome{.sorted = true};
  const size_t plain = items.size() - nans;
  for (size_t i = 0; i < items.size(); ++i) {
    const auto bits = std::bit_cast<uint64_t>(items[i]);
    outcome.sum += mix64(bits);
    if (i == 0) continue;
    if (by_bits) {
      outcome.sorted &= std::bit_cast<uint64_t>(items[i - 1]) <= bits;
    } else {
      outcome.sorted &= i >= plain ? std::isnan(items[i]) : items[i - 1] <= items[i];
    }
  }
  return outcome;
}

struct Contender {
  std::string name;
  std::function<Status(std::span<double>)> sort;
  bool by_bits = false;
};

std::vector<Contender> contenders(Report& report) {
  std::vector<Contender> all = {
      {"penstock", [](std::span<double> items) { return penstock::sort(items); }},
      {"penstock, the bits as u64",
       [](std::span<double> items) {
         // The library reads them as bytes.
         return penstock::sort(std::span(reinterpret_cast<uint64_t*>(items.data()), items.size()));
       },
       true}};
  const Sorters<double> rivals = rival_sorts<double>();
  for (const std::string& missing : rivals.missing) report.add("not here: " + missing, "", {0});
  for (const Sorter<double>& rival : rivals.found) {
    if (rival.threads_min > 1) continue;
    all.push_back({rival.name, [sort = rival.sort](std::span<double> items) -> Status {
                     const auto end = std::partition(items.begin(), items.end(),
                                                     [](double item) { return !std::isnan(item); });
                     sort(items.data(), static_cast<size_t>(end - items.begin()), 1);
                     return {};
                   }});
  }
  return all;
}

Status race(const Options& options, unsigned percent_nan, Report& report) {
  const size_t count = size_t{1} << (options.quick ? 16 : 25);
  const std::vector<double> input = numbers(count, percent_nan);
  const auto nans = static_cast<size_t>(
      std::ranges::count_if(input, [](double number) { return std::isnan(number); }));
  const uint64_t sum = outcome_of(input, nans, false).sum;
  report.hash(sum);
  const std::vector<Contender> all = contenders(report);
  std::vector<std::vector<double>> seconds(all.size());
  std::vector<bool> out(all.size());
  std::vector<double> items(count);
  for (unsigned round = 0; round < options.runs_or(5); ++round) {
    for (size_t i = 0; i < all.size(); ++i) {
      if (out[i]) continue;
      std::ranges::copy(input, items.begin());
      Status done;
      const double taken = seconds_of([&] { done = all[i].sort(items); });
      if (!done) return done;
      const Outcome outcome = outcome_of(items, nans, all[i].by_bits);
      if (outcome.sorted && outcome.sum == sum) {
        seconds[i].push_back(taken);
        continue;
      }
      if (i < 2) return failure(ErrorCode::corrupt, "sort", all[i].name);
      report.add(fmt::format("{} % NaN, out for a wrong result: {}", percent_nan, all[i].name), "",
                 {0});
      out[i] = true;
    }
  }
  double best = std::numeric_limits<double>::infinity();
  double std_sort = best;
  for (size_t i = 0; i < all.size(); ++i) {
    if (out[i]) continue;
    std::vector<double> speeds;
    for (const double taken : seconds[i])
      speeds.push_back(static_cast<double>(count) / taken / 1e6);
    report.add(fmt::format("{} % NaN: {}", percent_nan, all[i].name), "M/s", speeds);
    if (i < 2) continue;
    best = std::min(best, median(seconds[i]));
    if (all[i].name == "std::sort") std_sort = median(seconds[i]);
  }
  const double ours = median(seconds[0]);
  report.ratio(fmt::format("vs_best_rival_{}pc_nan", percent_nan), best / ours);
  report.ratio(fmt::format("vs_std_sort_{}pc_nan", percent_nan), std_sort / ours);
  report.ratio(fmt::format("vs_plain_order_{}pc_nan", percent_nan), median(seconds[1]) / ours);
  return {};
}

Result<Report> run(const Options& options) {
  Report report;
  for (const unsigned percent_nan : {0u, 10u}) {
    if (Status done = race(options, percent_nan, report); !done)
      return std::unexpected(done.error());
  }
  return report;
}

const Registration registration{"sort-floats", "doubles, some of them NaN, beside other sorts",
                                run};

}  // namespace
}  // namespace penstock::bench
