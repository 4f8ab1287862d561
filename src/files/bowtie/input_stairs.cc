#include "files/bowtie/input_stairs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "files/bowtie/model.h"
#include "files/bowtie/scheduler.h"

namespace penstock::bowtie {
namespace {

// A rate below this part of an equal share counts as this part.
constexpr double rate_min_part = 1.0 / 64;
// Lower bound of 1 - sum r^2 for an overlapped reader, reached when one input drains alone.
constexpr double spread_min = 1.0 / 64;
// An input whose horizon is further away than this many D is outside of the staircase.
constexpr double outside_cycles = 1.5;

}  // namespace

InputStairs::InputStairs(const Options& options)
    : options_(options), rates_(options.inputs), consumed_(options.inputs) {
  PENSTOCK_CHECK(options.inputs == 0 || options.block_bytes > 0, "a read moves something");
  PENSTOCK_CHECK(options.memory_bytes / std::max(1u, options.inputs) >= options.block_bytes ||
                     options.inputs == 0,
                 "each input needs a block");
}

void InputStairs::note(const View& view) {
  const size_t inputs = rates_.size();
  if (inputs == 0) return;
  if (!primed_) {
    primed_ = true;
    bool known = true;
    double total = 0;
    double live = 0;
    for (size_t i = 0; i < inputs; ++i) {
      known &= view.input_left_bytes[i] != unknown_bytes;
      total += static_cast<double>(view.input_left_bytes[i]);
      live += view.input_left_bytes[i] != 0;
    }
    for (size_t i = 0; i < inputs; ++i) {
      const auto left = static_cast<double>(view.input_left_bytes[i]);
      rates_[i] = left == 0 ? 0 : std::max(known ? left / total : 1 / live, rate_min_part / live);
    }
    consumed_.assign(view.input_consumed_bytes.begin(), view.input_consumed_bytes.end());
    return;
  }
  double consumed = 0;
  for (size_t i = 0; i < inputs; ++i)
    consumed += static_cast<double>(view.input_consumed_bytes[i] - consumed_[i]);
  if (consumed == 0) return;
  const double old_weight = std::exp(-consumed / (2 * static_cast<double>(options_.memory_bytes)));
  const double new_weight = (1 - old_weight) / consumed;
  const double least = rate_min_part / static_cast<double>(inputs);
  for (size_t i = 0; i < inputs; ++i) {
    const auto bytes = static_cast<double>(view.input_consumed_bytes[i] - consumed_[i]);
    rates_[i] = std::max(least, old_weight * rates_[i] + new_weight * bytes);
    consumed_[i] = view.input_consumed_bytes[i];
  }
}

uint64_t InputStairs::reserve(const View& view, uint32_t input) const {
  const uint64_t left = view.input_left_bytes[input];
  if (left >= options_.block_bytes) return options_.block_bytes;
  return std::min(options_.block_bytes, view.input_bytes[input] + left);
}

uint64_t InputStairs::room(const View& view, uint32_t input) const {
  uint64_t taken = 0;
  for (uint32_t i = 0; i < rates_.size(); ++i) {
    const uint64_t bytes = view.input_bytes[i];
    taken += i == input ? bytes : std::max(bytes, reserve(view, i));
  }
  return options_.memory_bytes > taken ? options_.memory_bytes - taken : 0;
}

double InputStairs::horizon(const View& view, uint32_t input) const {
  return static_cast<double>(view.input_bytes[input]) / rates_[input];
}

double InputStairs::free_bytes(const View& view, std::span<const uint32_t> group) const {
  auto bytes = static_cast<double>(options_.memory_bytes);
  for (uint32_t i = 0; i < rates_.size(); ++i) {
    const uint64_t held = view.input_bytes[i];
    const bool own = std::find(group.begin(), group.end(), i) != group.end();
    bytes -= static_cast<double>(own ? held : std::max(held, reserve(view, i)));
  }
  return bytes;
}

// Computes D for `stairs.order`, and the groups that the order divides into.
void InputStairs::measure(Stairs& stairs, double memory_bytes) const {
  const auto live = static_cast<uint32_t>(stairs.order.size());
  const uint32_t groups = options_.overlapped ? live : groups_of(live, options_.group);
  stairs.groups = groups;
  stairs.group = groups == 0 ? 1 : (live + groups - 1) / groups;
  double all = 0;
  double squares = 0;
  for (uint32_t g = 0, first = 0; g < groups; ++g) {
    const uint32_t size = group_size(live, groups, g);
    double own = 0;
    for (uint32_t i = first; i < first + size; ++i) own += rates_[stairs.order[i]];
    all += own;
    squares += own * own;
    first += size;
  }
  const double spread = options_.overlapped ? std::max(spread_min * all * all, all * all - squares)
                                            : all * all + squares;
  stairs.cycle_bytes = spread > 0 ? 2 * std::max(0.0, memory_bytes) / spread : 0;
}

InputStairs::Stairs InputStairs::stairs(const View& view) const {
  Stairs stairs;
  std::vector<double> horizons(rates_.size());
  auto memory = static_cast<double>(options_.memory_bytes);
  for (uint32_t i = 0; i < rates_.size(); ++i) {
    if (view.input_left_bytes[i] == 0) {
      memory -= static_cast<double>(view.input_bytes[i]);
      continue;
    }
    stairs.order.push_back(i);
    horizons[i] = horizon(view, i);
  }
  std::sort(stairs.order.begin(), stairs.order.end(), [&](uint32_t a, uint32_t b) {
    return horizons[a] != horizons[b] ? horizons[a] < horizons[b] : a < b;
  });
  measure(stairs, memory);
  for (bool outside = true; outside;) {
    outside = false;
    const double most = outside_cycles * stairs.cycle_bytes;
    while (stairs.order.size() > 1 && horizons[stairs.order.back()] > most) {
      memory -= static_cast<double>(view.input_bytes[stairs.order.back()]);
      stairs.order.pop_back();
      outside = true;
    }
    if (outside) measure(stairs, memory);
  }
  return stairs;
}

double InputStairs::horizon_max(const View& view, std::span<const uint32_t> group,
                                std::span<const uint32_t> others, double cycle_bytes) const {
  if (others.empty()) return std::numeric_limits<double>::infinity();
  double share = rates_[others.back()];
  if (!options_.overlapped) {
    share = 0;
    for (uint32_t i : group) share += rates_[i];
  }
  return horizon(view, others.back()) + cycle_bytes * share;
}

// Divides `bytes` among a group to equal horizons; each input gets its reserve at least.
std::vector<Load> InputStairs::share_out(const View& view, std::span<const uint32_t> group,
                                         double bytes, double horizon_max) const {
  std::vector<double> held(group.size());
  std::vector<double> most(group.size());
  double highest = 0;
  for (size_t i = 0; i < group.size(); ++i) {
    const auto now = static_cast<double>(view.input_bytes[group[i]]);
    held[i] = std::max(now, static_cast<double>(reserve(view, group[i])));
    bytes -= held[i] - now;
    most[i] = now + static_cast<double>(view.input_left_bytes[group[i]]);
    highest = std::max(highest, held[i] / rates_[group[i]]);
  }
  bytes = std::max(bytes, 0.0);
  // The level at which exactly `bytes` are distributed, by bisection.
  auto level_of = [&](size_t i, double level) {
    return std::clamp(level * rates_[group[i]], held[i], std::max(held[i], most[i]));
  };
  auto given = [&](double level) {
    double all = 0;
    for (size_t i = 0; i < group.size(); ++i) all += level_of(i, level) - held[i];
    return all;
  };
  double slowest = rates_[group[0]];
  for (uint32_t i : group) slowest = std::min(slowest, rates_[i]);
  double low = 0;
  double high = std::min(horizon_max, highest + bytes / slowest);
  for (int round = 0; round < 64 && high - low > 0.25; ++round) {
    const double middle = (low + high) / 2;
    (given(middle) <= bytes ? low : high) = middle;
  }
  std::vector<Load> loads;
  for (size_t i = 0; i < group.size(); ++i) {
    const uint64_t now = view.input_bytes[group[i]];
    const auto level = static_cast<uint64_t>(level_of(i, low));
    if (level > now) loads.push_back({group[i], level - now});
  }
  return loads;
}

std::vector<Load> InputStairs::preload(const View& view) {
  // All horizons are zero, so `order` is the inputs' order; reversed, the last stay lowest.
  Stairs stairs = this->stairs(view);
  std::reverse(stairs.order.begin(), stairs.order.end());
  measure(stairs, static_cast<double>(options_.memory_bytes));
  const std::vector<uint32_t>& order = stairs.order;
  const auto live = static_cast<uint32_t>(order.size());
  const auto groups = static_cast<uint32_t>(stairs.groups);
  std::vector<uint64_t> bytes(live);
  uint64_t counted = 0;
  double share = 0;
  for (uint32_t g = 0, first = 0; g < groups; ++g) {
    const uint32_t size = group_size(live, groups, g);
    double own = 0;
    for (uint32_t i = first; i < first + size; ++i) own += rates_[order[i]];
    const double stair = stairs.cycle_bytes * (options_.overlapped ? share : share + own);
    for (uint32_t i = first; i < first + size; ++i) {
      const double wanted = stair * rates_[order[i]];
      const uint64_t left = view.input_left_bytes[order[i]];
      bytes[i] = wanted >= static_cast<double>(left) ? left : static_cast<uint64_t>(wanted);
      counted += std::max(bytes[i], reserve(view, order[i]));
    }
    share += own;
    first += size;
  }
  // The reserves of the lowest are taken from the highest.
  for (uint32_t i = live; i-- > 0 && counted > options_.memory_bytes;) {
    const uint64_t over = counted - options_.memory_bytes;
    const uint64_t keep = std::min(bytes[i], reserve(view, order[i]));
    const uint64_t less = std::min(over, bytes[i] - keep);
    bytes[i] -= less;
    counted -= less;
  }
  std::vector<Load> loads;
  for (uint32_t i = live; i-- > 0;) {
    if (bytes[i] > 0) loads.push_back({order[i], bytes[i]});
  }
  return loads;
}

std::vector<Load> InputStairs::load_group(const View& view, uint32_t input) {
  Stairs stairs = this->stairs(view);
  // The input that is waited for comes first, even before others that are empty.
  const auto at = std::find(stairs.order.begin(), stairs.order.end(), input);
  if (at == stairs.order.end()) {  // outside: it hardly drains, and holds a piece of an item
    stairs.order.insert(stairs.order.begin(), input);
    stairs.groups = std::max(1.0, stairs.groups);
  } else {
    std::rotate(stairs.order.begin(), at, at + 1);
  }
  const double half_step = stairs.cycle_bytes / stairs.groups / 2;
  const std::span<const uint32_t> order = stairs.order;
  size_t due = 1;
  while (due < order.size() && due < stairs.group && horizon(view, order[due]) < half_step) ++due;
  const auto members = order.first(due);
  return share_out(view, members, free_bytes(view, members),
                   horizon_max(view, members, order.subspan(due), stairs.cycle_bytes));
}

uint64_t InputStairs::fill(const View& view, uint32_t input) {
  if (view.input_left_bytes[input] == 0) return 0;
  Stairs stairs = this->stairs(view);
  std::erase(stairs.order, input);
  const auto own = std::array{input};
  const uint64_t held = view.input_bytes[input];
  const double stair = horizon_max(view, own, stairs.order, stairs.cycle_bytes) * rates_[input];
  const double wanted = std::min(free_bytes(view, own), stair - static_cast<double>(held));
  // At least a block, so that this input is not empty when the reader goes on to another.
  const uint64_t least = std::max(held, reserve(view, input)) - held;
  const uint64_t most = std::min(room(view, input), view.input_left_bytes[input]);
  return std::min(most, std::max(least, wanted > 0 ? static_cast<uint64_t>(wanted) : 0));
}

}  // namespace penstock::bowtie
