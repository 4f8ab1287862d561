#include "files/bowtie/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "penstock/base.h"

namespace penstock::bowtie {
namespace {

// Size of the two blocks of a side that only passes data through.
constexpr uint64_t pass_block_bytes = 64 * KiB;
// Fewer steps than this, and the first fill and the last flush weigh more than the steady state.
constexpr double steps_min = 8;

double divided(double bytes, double by) {
  return by > 0 ? bytes / by : infinite;
}

double memory(const Bowtie& bowtie) {
  return static_cast<double>(bowtie.memory_bytes);
}

double square(double x) {
  return x * x;
}

void check(const Bowtie& bowtie) {
  PENSTOCK_CHECK(bowtie.inputs + bowtie.outputs > 0, "a bowtie has streams");
  PENSTOCK_CHECK(bowtie.input_share >= 0 && bowtie.input_share <= 1, "a share is from 0 to 1");
  PENSTOCK_CHECK(bowtie.memory_bytes > 0, "a bowtie needs memory");
}

// If one side is missing, alpha follows from the shape.
double input_share(const Bowtie& bowtie) {
  return bowtie.inputs == 0 ? 0 : bowtie.outputs == 0 ? 1 : bowtie.input_share;
}

struct Sides {
  Side inputs;
  Side outputs;
};

// D, by the formula in model.h.
double step_bytes(const Bowtie& bowtie, const Sides& sides) {
  const double alpha = input_share(bowtie);
  return divided(memory(bowtie), alpha * sides.inputs.stairs + (1 - alpha) * sides.outputs.stairs);
}

double run_bytes_of(const Bowtie& bowtie, const Sides& sides) {
  return step_bytes(bowtie, sides) / (sides.inputs.switches + sides.outputs.switches);
}

Sides sides_of(const Bowtie& bowtie, Algorithm algorithm, Groups groups) {
  switch (algorithm) {
    case Algorithm::a1:
      return {{}, overlapped_side(bowtie.outputs)};
    case Algorithm::a3:
      return {overlapped_side(bowtie.inputs), {}};
    case Algorithm::a2:
    case Algorithm::a6r:
      return {overlapped_side(bowtie.inputs), grouped_side(bowtie.outputs, groups.outputs)};
    case Algorithm::a4:
    case Algorithm::a6w:
      return {grouped_side(bowtie.inputs, groups.inputs), overlapped_side(bowtie.outputs)};
    case Algorithm::a5:
      return {grouped_side(bowtie.inputs, groups.inputs),
              grouped_side(bowtie.outputs, groups.outputs)};
  }
  return {};
}

bool fits(const Bowtie& bowtie, Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::a1:
      return bowtie.inputs == 0 && bowtie.outputs > 0;
    case Algorithm::a2:
      return bowtie.inputs == 1 && bowtie.outputs > 0;
    case Algorithm::a3:
      return bowtie.inputs > 0 && bowtie.outputs == 0;
    case Algorithm::a4:
      return bowtie.inputs > 0 && bowtie.outputs == 1;
    default:
      return bowtie.inputs > 0 && bowtie.outputs > 0;
  }
}

// The whole number near `real`, within [1, streams], for which `run(c)` is largest; of equal ones
// the smallest, which leaves less to do at both ends.
template <class Run>
uint32_t best_whole(double real, uint32_t streams, Run run) {
  uint32_t best = 1;
  double longest = 0;
  const auto low = static_cast<uint32_t>(std::max(1.0, std::floor(real * 0.7)));
  const auto high = static_cast<uint32_t>(std::ceil(real * 1.4)) + 1;
  for (uint32_t c = std::min(low, streams); c <= std::min(high, streams); ++c) {
    if (double bytes = run(c); bytes > longest * (1 + 1e-9)) {
      longest = bytes;
      best = c;
    }
  }
  return best;
}

}  // namespace

const char* name_of(Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::a1:
      return "A1";
    case Algorithm::a2:
      return "A2";
    case Algorithm::a3:
      return "A3";
    case Algorithm::a4:
      return "A4";
    case Algorithm::a5:
      return "A5";
    case Algorithm::a6r:
      return "A6r";
    case Algorithm::a6w:
      return "A6w";
  }
  return "";
}

bool reads_overlap(Algorithm algorithm) {
  return algorithm == Algorithm::a2 || algorithm == Algorithm::a3 || algorithm == Algorithm::a6r;
}

bool writes_overlap(Algorithm algorithm) {
  return algorithm == Algorithm::a1 || algorithm == Algorithm::a4 || algorithm == Algorithm::a6w;
}

double run_bytes_a1(const Bowtie& bowtie) {
  return divided(2 * memory(bowtie), bowtie.outputs - 1.0);
}

double run_bytes_a3(const Bowtie& bowtie) {
  return divided(2 * memory(bowtie), bowtie.inputs - 1.0);
}

double best_group_a6r(const Bowtie& bowtie) {
  const double alpha = bowtie.input_share;
  const double written = (1 - alpha) * bowtie.outputs;
  const double rest = (1 - alpha) + alpha * (bowtie.inputs - 1.0);
  // alpha = 1: nothing is written, so any group will do.
  return rest > 0 ? std::max(1.0, std::sqrt(written / rest)) : 1;
}

double best_group_a6w(const Bowtie& bowtie) {
  return best_group_a6r({.inputs = bowtie.outputs,
                         .outputs = bowtie.inputs,
                         .input_share = 1 - bowtie.input_share,
                         .memory_bytes = bowtie.memory_bytes});
}

std::vector<double> overlapped_staircase(double memory_bytes, uint32_t streams) {
  std::vector<double> stairs(streams, memory_bytes);
  for (uint32_t i = 0; streams > 1 && i < streams; ++i)
    stairs[i] = 2 * memory_bytes / streams * (1 - i / (streams - 1.0));
  return stairs;
}

Side overlapped_side(uint32_t streams) {
  return streams == 0 ? Side{} : Side{1, (streams - 1.0) / 2};
}

uint32_t groups_of(uint32_t streams, uint32_t group) {
  return (streams + group - 1) / group;
}

// Spreads the larger groups evenly among the others.
uint32_t group_size(uint32_t streams, uint32_t groups, uint32_t g) {
  auto before = [&](uint64_t count) { return (count * streams + groups - 1) / groups; };
  return static_cast<uint32_t>(before(g % groups + 1) - before(g % groups));
}

Side grouped_side(uint32_t streams, uint32_t group) {
  PENSTOCK_CHECK(group >= 1 && group <= streams, "a group has from 1 to all streams");
  const uint32_t groups = groups_of(streams, group);
  const uint32_t small = streams / groups;
  const uint32_t larger = streams % groups;  // number of groups with one more stream
  const double squares = larger * square(small + 1.0) + (groups - larger) * square(small);
  return {static_cast<double>(streams) / groups, groups * (1 + squares / square(streams)) / 2};
}

Schedule schedule_with(const Bowtie& bowtie, Algorithm algorithm, Groups groups) {
  check(bowtie);
  PENSTOCK_CHECK(fits(bowtie, algorithm), "the algorithm is for another shape");
  const Sides sides = sides_of(bowtie, algorithm, groups);
  Schedule schedule;
  schedule.algorithm = algorithm;
  schedule.bowtie = bowtie;
  schedule.bowtie.input_share = input_share(bowtie);
  schedule.groups = groups;
  schedule.step_bytes = step_bytes(bowtie, sides);
  schedule.run_bytes = run_bytes_of(bowtie, sides);
  // A side without a staircase needs two blocks; in a tiny memory, a 64th of it.
  const uint64_t pass =
      std::min<uint64_t>(2 * pass_block_bytes, std::max<uint64_t>(1, bowtie.memory_bytes / 64));
  uint64_t inputs = 0;
  if (bowtie.outputs == 0) {
    inputs = bowtie.memory_bytes;
  } else if (bowtie.inputs > 0) {
    const double alpha = schedule.bowtie.input_share;
    const double in = alpha * sides.inputs.stairs;
    const double out = (1 - alpha) * sides.outputs.stairs;
    // Two streams in all: no side needs a staircase, both pass through.
    const double share = in + out > 0 ? in / (in + out) : 0.5;
    inputs = std::clamp<uint64_t>(static_cast<uint64_t>(share * memory(bowtie)), pass,
                                  bowtie.memory_bytes - pass);
  }
  schedule.input_memory_bytes = inputs;
  schedule.output_memory_bytes = bowtie.memory_bytes - inputs;
  return schedule;
}

namespace {

// A group that was just emptied (filled) has one stair less (more) than the one before it; its
// streams have equal shares.
std::vector<double> staircase_of_side(double memory_bytes, uint32_t streams, bool overlapped,
                                      uint32_t group) {
  if (streams == 0 || (overlapped && streams == 1)) return {};
  if (overlapped) return overlapped_staircase(memory_bytes, streams);
  const uint32_t groups = groups_of(streams, group);
  double stairs = 0;
  for (uint32_t g = 0; g < groups; ++g)
    stairs += static_cast<double>(group_size(streams, groups, g)) * (groups - g);
  std::vector<double> bytes;
  for (uint32_t g = 0; g < groups; ++g)
    bytes.insert(bytes.end(), group_size(streams, groups, g), memory_bytes * (groups - g) / stairs);
  return bytes;
}

}  // namespace

std::vector<double> input_staircase(const Schedule& schedule) {
  return staircase_of_side(static_cast<double>(schedule.input_memory_bytes), schedule.bowtie.inputs,
                           reads_overlap(schedule.algorithm), schedule.groups.inputs);
}

std::vector<double> output_staircase(const Schedule& schedule) {
  return staircase_of_side(static_cast<double>(schedule.output_memory_bytes),
                           schedule.bowtie.outputs, writes_overlap(schedule.algorithm),
                           schedule.groups.outputs);
}

Schedule best_schedule(const Bowtie& bowtie) {
  check(bowtie);
  if (bowtie.inputs == 0) return schedule_with(bowtie, Algorithm::a1, {});
  if (bowtie.outputs == 0) return schedule_with(bowtie, Algorithm::a3, {});
  const uint32_t c_w = best_whole(best_group_a6r(bowtie), bowtie.outputs, [&](uint32_t c) {
    return run_bytes_of(bowtie, sides_of(bowtie, Algorithm::a6r, {1, c}));
  });
  const uint32_t c_r = best_whole(best_group_a6w(bowtie), bowtie.inputs, [&](uint32_t c) {
    return run_bytes_of(bowtie, sides_of(bowtie, Algorithm::a6w, {c, 1}));
  });
  const bool from_file = bowtie.inputs == 1;
  const bool to_file = bowtie.outputs == 1;
  Schedule reading = schedule_with(bowtie, from_file ? Algorithm::a2 : Algorithm::a6r, {1, c_w});
  Schedule writing = schedule_with(bowtie, to_file ? Algorithm::a4 : Algorithm::a6w, {c_r, 1});
  return reading.run_bytes >= writing.run_bytes ? reading : writing;
}

double best_run_bytes(const Bowtie& bowtie) {
  if (bowtie.inputs == 0) return run_bytes_a1(bowtie);
  if (bowtie.outputs == 0) return run_bytes_a3(bowtie);
  double longest = 0;
  auto consider = [&](Algorithm algorithm, double real, uint32_t streams) {
    for (double c : {std::floor(real), std::ceil(real)}) {
      const uint32_t group = std::clamp(static_cast<uint32_t>(c), 1u, streams);
      const Groups groups = algorithm == Algorithm::a6r ? Groups{1, group} : Groups{group, 1};
      longest = std::max(longest, run_bytes_of(bowtie, sides_of(bowtie, algorithm, groups)));
    }
  };
  consider(Algorithm::a6r, best_group_a6r(bowtie), bowtie.outputs);
  consider(Algorithm::a6w, best_group_a6w(bowtie), bowtie.inputs);
  return longest;
}

double seconds_of(const Traffic& traffic, const DeviceProfile& device, uint32_t inputs,
                  uint32_t outputs) {
  return traffic.read_bytes / device.read_bytes_per_s +
         traffic.written_bytes / device.write_bytes_per_s +
         traffic.switches * device.switch_seconds.at(inputs, outputs);
}

double bytes_per_s(const Bowtie& bowtie, double run_bytes, const DeviceProfile& device) {
  const double alpha = input_share(bowtie);
  const double delay = device.switch_seconds.at(bowtie.inputs, bowtie.outputs);
  return 1 / (alpha / device.read_bytes_per_s + (1 - alpha) / device.write_bytes_per_s +
              delay / run_bytes);
}

bool Prediction::hides(uint64_t cache_bytes) const {
  return round_bytes < static_cast<double>(cache_bytes);
}

std::vector<std::string> Prediction::beyond_model() const {
  std::vector<std::string> words;
  if (cache_may_hide_switches) {
    words.push_back(
        fmt::format("The device's cache holds more than a round of all streams ({:.0f} MB): it may "
                    "hide switches and be faster than this.",
                    round_bytes / 1e6));
  }
  if (too_short_for_steady_state) {
    words.emplace_back(
        "The data are only a few times the memory: the first fill and the last flush weigh more "
        "than in the steady state.");
  }
  if (run_below_block) {
    words.push_back(
        fmt::format("{:.0f} bytes in a row are less than a block: more memory or fewer "
                    "streams are needed.",
                    schedule.run_bytes));
  }
  return words;
}

Prediction predict(const Bowtie& bowtie, double bytes, const DeviceProfile& device) {
  return predict(best_schedule(bowtie), bytes, device);
}

Prediction predict(const Schedule& schedule, double bytes, const DeviceProfile& device) {
  Prediction prediction;
  prediction.schedule = schedule;
  const Bowtie& bowtie = schedule.bowtie;
  const uint32_t streams = bowtie.inputs + bowtie.outputs;
  prediction.traffic.read_bytes = bytes * bowtie.input_share;
  prediction.traffic.written_bytes = bytes - prediction.traffic.read_bytes;
  // Even with infinite runs, each stream is visited once.
  prediction.traffic.switches = std::max<double>(streams, bytes / schedule.run_bytes);
  prediction.seconds = seconds_of(prediction.traffic, device, bowtie.inputs, bowtie.outputs);
  prediction.throughput_bytes_per_s = prediction.seconds > 0 ? bytes / prediction.seconds : 0;
  prediction.round_bytes = streams * std::min(schedule.run_bytes, bytes / streams);
  prediction.cache_may_hide_switches = prediction.hides(device.cache_bytes);
  prediction.too_short_for_steady_state =
      streams > 2 && bytes < steps_min * std::max(schedule.step_bytes, memory(bowtie));
  prediction.run_below_block = schedule.run_bytes < 4096;
  return prediction;
}

}  // namespace penstock::bowtie
