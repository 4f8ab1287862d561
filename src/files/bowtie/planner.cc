#include "files/bowtie/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "penstock/base.h"

namespace penstock::bowtie {
namespace {

constexpr uint64_t stxxl_block_bytes = 2 * MiB;

uint32_t divided_up(uint32_t files, uint32_t by) {
  return (files + by - 1) / by;
}

// The two halves of a plan. Each step has many files on one side and one on the other: a merge
// reads the many, a distribution writes them.
enum class Half { merges, distributions };

// Bytes and time of single passes.
class Costs {
 public:
  explicit Costs(const PlanRequest& request) : request_(request) {}

  // The bytes of all files at any stage.
  double bytes() const { return request_.bytes; }
  double read_bytes() const { return request_.inputs == 0 ? 0 : bytes(); }
  double written_bytes() const { return request_.outputs == 0 ? 0 : bytes(); }

  bool fits(uint32_t fan_in, uint32_t fan_out) const {
    // A side of one stream passes data through.
    return (static_cast<double>(fan_in) + fan_out) *
               static_cast<double>(request_.stream_bytes_min) <=
           static_cast<double>(request_.memory_bytes);
  }

  // The bytes of the many files per switch, for every fan, so that switches = those bytes / this.
  // (11) has alpha in the denominator, so it does not depend on alpha.
  std::vector<double> bytes_per_switch(Half half, uint32_t fan_max) const {
    std::vector<double> bytes(fan_max + 1, infinite);
    for (uint32_t i = 2; i <= fan_max; ++i) bytes[i] = best_run_bytes(shape_of(half, i)) / 2;
    return bytes;
  }

  Bowtie shape(uint32_t fan_in, uint32_t fan_out, double input_share) const {
    return {.inputs = fan_in,
            .outputs = fan_out,
            .input_share = input_share,
            .memory_bytes = request_.memory_bytes};
  }

  // One step of a half: a bowtie of `fan` files and one.
  Bowtie shape_of(Half half, uint32_t fan) const {
    return half == Half::merges ? shape(fan, 1, 0.5) : shape(1, fan, 0.5);
  }
  double seconds_of_step(Half half, double switches, uint32_t fan) const {
    const Bowtie bowtie = shape_of(half, fan);
    return seconds_of({.read_bytes = bytes(), .written_bytes = bytes(), .switches = switches},
                      device(), bowtie.inputs, bowtie.outputs);
  }

  // The bowtie between merges and distributions: fan_in inputs, fan_out outputs.
  double bowtie_seconds(uint32_t fan_in, uint32_t fan_out, double* switches) const {
    const Bowtie bowtie = middle(fan_in, fan_out);
    const double moved = read_bytes() + written_bytes();
    *switches = std::max<double>(static_cast<double>(bowtie.inputs) + bowtie.outputs,
                                 moved / best_run_bytes(bowtie));
    return seconds_of(
        {.read_bytes = read_bytes(), .written_bytes = written_bytes(), .switches = *switches},
        device(), bowtie.inputs, bowtie.outputs);
  }
  Bowtie middle(uint32_t fan_in, uint32_t fan_out) const {
    return shape(fan_in, fan_out, fan_in == 0 ? 0 : fan_out == 0 ? 1 : 0.5);
  }

  const DeviceProfile& device() const { return *request_.device; }

 private:
  const PlanRequest& request_;
};

// Among plans with equal costs (90 x 89, 91 x 88, 92 x 87 for 8,000 files), the most even one is
// better: fewer streams share the memory.
bool better(double seconds, uint32_t largest, double than_seconds, uint32_t than_largest) {
  if (seconds < than_seconds * (1 - 1e-9)) return true;
  return seconds <= than_seconds * (1 + 1e-9) && largest < than_largest;
}

// Listing 1: time[f] and the factors, for all f or for those of a grid.
class FactorTable {
 public:
  // `step(i, k, f)`: seconds of a step with fan i, from files / k to files / f files.
  template <class Step>
  FactorTable(std::vector<uint32_t> factors, const std::vector<uint32_t>& fans, Step step)
      : factors_(std::move(factors)),
        seconds_(factors_.size(), infinite),
        fan_(factors_.size(), 0),
        largest_(factors_.size(), 1) {
    for (size_t at = 0; at < factors_.size(); ++at) {
      const uint32_t f = factors_[at];
      if (f == 1) {
        seconds_[at] = 0;
        continue;
      }
      for (uint32_t i : fans) {
        if (i > f) break;
        const size_t before = index_of(divided_up(f, i));
        ++combinations_;
        const double seconds = seconds_[before] + step(i, factors_[before], f);
        const uint32_t largest = std::max(i, largest_[before]);
        if (better(seconds, largest, seconds_[at], largest_[at])) {
          seconds_[at] = seconds;
          fan_[at] = i;
          largest_[at] = largest;
        }
      }
    }
  }

  double seconds(uint32_t f) const { return seconds_[index_of(f)]; }
  uint32_t largest(uint32_t f) const { return largest_[index_of(f)]; }
  // The fans of the steps to f, in the order of the steps.
  std::vector<uint32_t> path(uint32_t f) const {
    std::vector<uint32_t> fans;
    for (size_t at = index_of(f); factors_[at] != 1;
         at = index_of(divided_up(factors_[at], fans.back())))
      fans.push_back(fan_[at]);
    std::reverse(fans.begin(), fans.end());
    return fans;
  }
  uint64_t combinations() const { return combinations_; }

 private:
  // The index of the first entry not smaller than f.
  size_t index_of(uint32_t f) const {
    if (factors_.back() == factors_.size()) return f - 1;  // all of them
    return static_cast<size_t>(std::lower_bound(factors_.begin(), factors_.end(), f) -
                               factors_.begin());
  }

  std::vector<uint32_t> factors_;
  std::vector<double> seconds_;
  std::vector<uint32_t> fan_;
  std::vector<uint32_t> largest_;
  uint64_t combinations_ = 0;
};

// The numbers 1 .. most, or a grid: the first sixteen, then four per octave, and the last.
std::vector<uint32_t> numbers_to(uint32_t most, Search search) {
  std::vector<uint32_t> numbers;
  if (search == Search::exact) {
    for (uint32_t i = 1; i <= most; ++i) numbers.push_back(i);
    return numbers;
  }
  for (double at = 1; at < most; at = at < 16 ? at + 1 : at * 1.189207115)
    numbers.push_back(static_cast<uint32_t>(at));
  numbers.push_back(std::max(1u, most));
  return numbers;
}

std::vector<uint32_t> from_two(std::vector<uint32_t> numbers) {
  std::erase(numbers, 1u);
  return numbers;
}

FactorTable factor_table(const Costs& costs, Half half, uint32_t files, uint32_t fan_max,
                         Search search) {
  const uint32_t fan_most = std::min(files, fan_max);
  const std::vector<double> run_bytes = costs.bytes_per_switch(half, fan_most);
  return {numbers_to(files, search), from_two(numbers_to(fan_most, search)),
          [&](uint32_t i, uint32_t k, uint32_t f) {
            const double visited = static_cast<double>(files) / k + static_cast<double>(files) / f;
            const double switches = std::max(visited, costs.bytes() / run_bytes[i]);
            return costs.seconds_of_step(half, switches, i);
          }};
}

// The factors to look up in a table: a grid, or one for every reachable number of files.
std::vector<uint32_t> factors_to_try(uint32_t files, Search search) {
  if (files == 0) return {1};
  if (search == Search::coarse) return numbers_to(files, search);
  std::vector<uint32_t> factors;
  for (uint32_t f = 1; f <= files;) {
    factors.push_back(f);
    const uint32_t left = divided_up(files, f);
    if (left == 1) break;
    f = divided_up(files, left - 1);  // the next factor that leaves fewer files
  }
  // This order finds the plan with the larger first merge first among equal ones.
  std::reverse(factors.begin(), factors.end());
  return factors;
}

struct Factors {
  std::vector<uint32_t> merges;
  std::vector<uint32_t> distributions;
};

// A pass between `many` files and `few` files, through bowties of `fan` files and one.
Pass half_pass(const Costs& costs, Half half, uint32_t fan, uint32_t many, uint32_t few) {
  const bool merge = half == Half::merges;
  Pass pass;
  pass.kind = merge ? Pass::Kind::merge : Pass::Kind::distribute;
  pass.fan_in = merge ? fan : 1;
  pass.fan_out = merge ? 1 : fan;
  pass.files_in = merge ? many : few;
  pass.files_out = merge ? few : many;
  pass.bowties = few;
  pass.read_bytes = costs.bytes();
  pass.written_bytes = costs.bytes();
  pass.schedule = best_schedule(costs.shape_of(half, fan));
  const auto visited = static_cast<double>(uint64_t{many} + few);
  pass.switches =
      std::max(visited, (pass.read_bytes + pass.written_bytes) / pass.schedule.run_bytes);
  pass.seconds = costs.seconds_of_step(half, pass.switches, fan);
  return pass;
}

Plan assemble(const PlanRequest& request, const Factors& factors) {
  const Costs costs(request);
  Plan plan;
  uint32_t files = request.inputs;
  for (uint32_t fan : factors.merges) {
    const uint32_t left = divided_up(files, fan);
    plan.passes.push_back(half_pass(costs, Half::merges, fan, files, left));
    files = left;
  }
  // The factors are in the order of time; the sizes of distributions follow from the end.
  std::vector<uint32_t> counts = {request.outputs};
  for (auto fan = factors.distributions.rbegin(); fan != factors.distributions.rend(); ++fan)
    counts.push_back(divided_up(counts.back(), *fan));
  Pass middle;
  middle.kind = request.inputs > 1 && request.outputs > 1 ? Pass::Kind::bowtie
                : request.outputs > 1                     ? Pass::Kind::distribute
                                                          : Pass::Kind::merge;
  middle.fan_in = files;
  middle.fan_out = counts.back();
  middle.files_in = files;
  middle.files_out = counts.back();
  middle.read_bytes = costs.read_bytes();
  middle.written_bytes = costs.written_bytes();
  middle.schedule = best_schedule(costs.middle(files, counts.back()));
  middle.seconds = costs.bowtie_seconds(files, counts.back(), &middle.switches);
  plan.passes.push_back(middle);
  for (size_t at = counts.size() - 1; at > 0; --at) {
    const uint32_t fan = factors.distributions[counts.size() - 1 - at];
    plan.passes.push_back(half_pass(costs, Half::distributions, fan, counts[at - 1], counts[at]));
  }
  for (size_t at = 0; at < plan.passes.size(); ++at) {
    const Pass& pass = plan.passes[at];
    plan.seconds += pass.seconds;
    plan.switches += pass.switches;
    plan.moved_bytes += pass.read_bytes + pass.written_bytes;
    plan.disk_bytes_max =
        std::max(plan.disk_bytes_max, pass.written_bytes + (at > 0 ? pass.read_bytes : 0));
    plan.exceeds_memory |= !costs.fits(pass.fan_in, pass.fan_out);
  }
  const double ends = costs.read_bytes() + costs.written_bytes();
  plan.throughput_bytes_per_s = plan.seconds > 0 ? ends / plan.seconds : 0;
  return plan;
}

// Seconds of a tree if it fits the memory, without its schedules.
double seconds_if_it_fits(const PlanRequest& request, const Factors& factors) {
  const Plan plan = assemble(request, factors);
  return plan.exceeds_memory ? infinite : plan.seconds;
}

// Searches the neighbourhood of a plan: single factors up and down, and pairs with their product
// kept, in steps that halve.
Factors refined(const PlanRequest& request, Factors best, uint64_t* combinations) {
  double best_seconds = seconds_if_it_fits(request, best);
  auto attempt = [&](const Factors& other) {
    ++*combinations;
    const double seconds = seconds_if_it_fits(request, other);
    if (seconds >= best_seconds) return false;
    best_seconds = seconds;
    best = other;
    return true;
  };
  auto factor = [](Factors& factors, size_t at) -> uint32_t& {
    return at < factors.merges.size() ? factors.merges[at]
                                      : factors.distributions[at - factors.merges.size()];
  };
  const size_t count = best.merges.size() + best.distributions.size();
  for (double part : {0.12, 0.06, 0.03, 0.01, 0.0}) {
    for (bool better = true; better;) {
      better = false;
      for (size_t at = 0; at < count; ++at) {
        for (int sign : {-1, 1}) {
          Factors other = best;
          uint32_t& value = factor(other, at);
          const uint32_t old = value;
          const auto by = static_cast<int64_t>(std::max(1.0, part * old));
          const int64_t changed = old + sign * by;
          if (changed < 2) continue;
          value = static_cast<uint32_t>(changed);
          better |= attempt(other);
          for (size_t second = 0; second < count; ++second) {
            if (second == at) continue;
            Factors pair = other;
            uint32_t& balance = factor(pair, second);
            balance =
                std::max(2u, static_cast<uint32_t>(std::ceil(static_cast<double>(balance) * old /
                                                             static_cast<double>(changed))));
            better |= attempt(pair);
          }
        }
      }
    }
  }
  return best;
}

std::vector<uint32_t> repeated(uint32_t files, uint32_t k) {
  std::vector<uint32_t> factors;
  while (files > k) {
    factors.push_back(k);
    files = divided_up(files, k);
  }
  return factors;
}

}  // namespace

const char* name_of(Pass::Kind kind) {
  switch (kind) {
    case Pass::Kind::merge:
      return "merge";
    case Pass::Kind::bowtie:
      return "bowtie";
    case Pass::Kind::distribute:
      return "distribute";
  }
  return "";
}

std::string Plan::factors() const {
  std::string text;
  for (const Pass& pass : passes) {
    if (!text.empty()) text += " x ";
    switch (pass.kind) {
      case Pass::Kind::merge:
        text += fmt::format("{}", pass.fan_in);
        break;
      case Pass::Kind::bowtie:
        text += fmt::format("({} x {})", pass.fan_in, pass.fan_out);
        break;
      case Pass::Kind::distribute:
        text += fmt::format("{}", pass.fan_out);
        break;
    }
  }
  return text;
}

Plan plan_with_factors(const PlanRequest& request, const std::vector<uint32_t>& merge_factors,
                       const std::vector<uint32_t>& distribution_factors) {
  PENSTOCK_CHECK(request.device != nullptr && request.inputs + request.outputs > 0,
                 "a plan needs a device and streams");
  return assemble(request, {merge_factors, distribution_factors});
}

Result<Plan> plan_bowtie(const PlanRequest& request, Search search) {
  PENSTOCK_CHECK(request.device != nullptr && request.inputs + request.outputs > 0,
                 "a plan needs a device and streams");
  if (Status ok = request.device->check(); !ok) return std::unexpected(ok.error());
  const Costs costs(request);
  // The most streams of a merge or a distribution beside its one stream on the other side.
  const uint64_t streams = request.memory_bytes / std::max<uint64_t>(1, request.stream_bytes_min);
  const auto fan_max = static_cast<uint32_t>(
      std::min<uint64_t>(streams > 0 ? streams - 1 : 0, std::numeric_limits<uint32_t>::max()));
  const uint32_t n = request.inputs;
  const uint32_t m = request.outputs;

  const FactorTable merges = factor_table(costs, Half::merges, n, fan_max, search);
  const FactorTable distributions = factor_table(costs, Half::distributions, m, fan_max, search);

  uint64_t combinations = merges.combinations() + distributions.combinations();
  double best_seconds = infinite;
  uint32_t best_largest = 0;
  uint32_t best_merge = 0;
  uint32_t best_distribution = 0;
  for (uint32_t f : factors_to_try(n, search)) {
    const uint32_t i = n == 0 ? 0 : divided_up(n, f);
    const double before = n == 0 ? 0 : merges.seconds(f);
    if (before > best_seconds) continue;
    for (uint32_t g : factors_to_try(m, search)) {
      const uint32_t j = m == 0 ? 0 : divided_up(m, g);
      if (!costs.fits(i, j)) continue;
      ++combinations;
      double switches = 0;
      const double seconds =
          before + costs.bowtie_seconds(i, j, &switches) + (m == 0 ? 0 : distributions.seconds(g));
      const uint32_t largest =
          std::max({i, j, n == 0 ? 1 : merges.largest(f), m == 0 ? 1 : distributions.largest(g)});
      if (better(seconds, largest, best_seconds, best_largest)) {
        best_seconds = seconds;
        best_largest = largest;
        best_merge = f;
        best_distribution = g;
      }
    }
  }
  if (best_merge == 0) {
    return failure(ErrorCode::out_of_memory, fmt::format("plan {} inputs and {} outputs", n, m),
                   fmt::format("{} bytes of memory", request.memory_bytes),
                   fmt::format("give at least {} bytes", 3 * request.stream_bytes_min));
  }
  Factors factors;
  if (n > 0) factors.merges = merges.path(best_merge);
  if (m > 0) {
    factors.distributions = distributions.path(best_distribution);
    // The table's last step, the one nearest to m / f files, comes first in time.
    std::reverse(factors.distributions.begin(), factors.distributions.end());
  }
  if (search == Search::coarse) factors = refined(request, factors, &combinations);
  Plan plan = assemble(request, factors);
  plan.combinations = combinations;
  return plan;
}

std::vector<Alternative> alternatives(const PlanRequest& request, const Plan& best) {
  std::vector<Alternative> all;
  auto add = [&](std::string name, Plan plan) {
    const double over = best.seconds > 0 ? plan.seconds / best.seconds : 1;
    all.push_back({std::move(name), std::move(plan), over});
  };
  auto fixed = [&](uint32_t k_in, uint32_t k_out) {
    return plan_with_factors(request, repeated(request.inputs, k_in),
                             repeated(request.outputs, k_out));
  };
  add("k = 2", fixed(2, 2));
  add("k = n", fixed(std::max(2u, request.inputs), std::max(2u, request.outputs)));

  const auto blocks =
      static_cast<double>(std::max<uint64_t>(2, request.memory_bytes / stxxl_block_bytes));
  auto stxxl = [&](uint32_t files) {
    if (files < 2) return 2u;
    const double passes = std::max(1.0, std::ceil(std::log(files) / std::log(blocks) - 1e-9));
    return std::max(2u, static_cast<uint32_t>(std::ceil(std::pow(files, 1 / passes) - 1e-9)));
  };
  Plan rule = fixed(stxxl(request.inputs), stxxl(request.outputs));
  add("STXXL's rule", rule);

  if (request.inputs <= 1 || request.outputs <= 1) {
    const bool merge = request.outputs <= 1;
    const double batch =
        std::max<double>(stxxl_block_bytes, static_cast<double>(request.memory_bytes) / 8);
    rule.seconds = 0;
    rule.switches = 0;
    for (Pass& pass : rule.passes) {
      const double scattered = merge ? pass.read_bytes : pass.written_bytes;
      const double in_order = merge ? pass.written_bytes : pass.read_bytes;
      pass.switches = scattered / static_cast<double>(stxxl_block_bytes) + in_order / batch;
      pass.seconds = bowtie::seconds_of({.read_bytes = pass.read_bytes,
                                         .written_bytes = pass.written_bytes,
                                         .switches = pass.switches},
                                        *request.device, pass.fan_in, pass.fan_out);
      rule.seconds += pass.seconds;
      rule.switches += pass.switches;
    }
    rule.throughput_bytes_per_s *= all.back().plan.seconds / std::max(1e-300, rule.seconds);
    add("STXXL's rule and blocks", std::move(rule));
  }
  return all;
}

}  // namespace penstock::bowtie
