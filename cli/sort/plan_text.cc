#include "cli/sort/plan_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/amounts.h"
#include "base/bits.h"
#include "base/printable.h"
#include "base/wrapped.h"
#include "cli/common/print.h"
#include "interfaces/api/json.h"

namespace penstock::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string in_time(double seconds) {
  if (seconds < 100) return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 2 : 1);
  const auto whole = static_cast<uint64_t>(std::llround(seconds));
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}
std::string in_words(double run_bytes, double pass_bytes) {
  return run_bytes < pass_bytes ? bytes_text(run_bytes) : "all";
}

double bytes_of(const bowtie::Pass& pass) {
  return pass.read_bytes + pass.written_bytes;
}

std::string bytes_or_none(uint64_t bytes) {
  return bytes > 0 ? bytes_text(bytes) : "-";
}

// A size in the form of -S's value.
std::string memory_option(uint64_t bytes) {
  return bytes % GiB == 0 ? fmt::format("{}G", bytes / GiB)
                          : fmt::format("{}M", ceil_div(bytes, uint64_t{MiB}));
}

void print_phases(const SortPlan& plan) {
  const bool timed = plan.device && plan.seconds > 0;
  print("\n{:<28} {:>10} {:>10} {:>10}  {}\n", "phase", "read", "written", timed ? "time" : "",
        timed ? "limited by" : "");
  for (const SortPhase& phase : plan.phases) {
    const bool bound = timed && phase.bound != PhaseBound::unknown;
    print("{:<28} {:>10} {:>10} {:>10}  {}\n", phase.name, bytes_or_none(phase.bytes_read),
          bytes_or_none(phase.bytes_written), timed ? in_time(phase.seconds) : "",
          bound ? name_of(phase.bound) : "");
  }
  if (!timed) return;
  print("{:<28} {:>10} {:>10} {:>10}\n", "together", bytes_text(plan.bytes_read),
        bytes_text(plan.bytes_written), in_time(plan.seconds));
}

void print_alternatives(const SortPlan& plan) {
  if (plan.alternatives.empty()) return;
  print("\n{:<28} {:>10} {:>10} {:>10}\n", "with another budget", "passes", "disk space", "time");
  for (const SortAlternative& other : plan.alternatives) {
    print("{:<28} {:>10} {:>10} {:>10}\n", "-S " + memory_option(other.memory_bytes), other.passes,
          bytes_or_none(other.temp_bytes), in_time(other.seconds));
  }
}

constexpr const char* why_two_passes = "the input does not fit in memory, its buckets do";
constexpr const char* why_more_passes = "the buckets of a first split do not fit in memory";

// The reason for more than one pass.
std::string why_passes(const SortPlan& plan) {
  std::string text = "memory holds a part of only so many files at a time";
  if (plan.method != SortMethod::merge) {
    const auto splits = std::ranges::count(plan.phases, "distribute", &SortPhase::name);
    text = splits > 1 ? why_more_passes : why_two_passes;
  }
  if (plan.fewer_passes_memory_bytes > 0)
    text += fmt::format("; -S {} saves one", memory_option(plan.fewer_passes_memory_bytes));
  return text;
}

std::string time_text(const SortPlan& plan) {
  if (plan.device_is_assumed)
    return fmt::format("{} on a typical disk (the input is too small to measure one)",
                       in_time(plan.seconds));
  return fmt::format("{}, likely {} to {}", in_time(plan.seconds), in_time(plan.seconds_low),
                     in_time(plan.seconds_high));
}

// Returns the most memory that the sort takes: its limit, or less if the input is so small that even
// items of a byte, with all that is kept of each, and the program's own memory stay below.
uint64_t memory_bytes_max(const SortPlan& plan) {
  constexpr uint64_t own_bytes = 16 * MiB;
  constexpr uint64_t times_max = 20;
  if (plan.input_bytes == 0 || plan.input_bytes > plan.memory_bytes / times_max)
    return plan.memory_bytes;
  return std::min(plan.memory_bytes, own_bytes + times_max * plan.input_bytes);
}

void print_sort(const Plans& plans, bool verbose) {
  const SortPlan& plan = *plans.sort;
  print("sort: {}\n", plan.method == SortMethod::empty ? "nothing to do" : plan.why);
  print("  method {}, {} of input{}, {}, {}\n", name_of(plan.method), bytes_text(plan.input_bytes),
        plans.has_header ? " without its header" : "", counted(plan.passes, "pass", "passes"),
        counted(plan.buckets, "bucket"));
  if (plan.passes > 1) print("  passes: {}\n", why_passes(plan));
  print("  disk: {}, and {}{} of output\n",
        plan.temp_bytes == 0 ? "no temporaries"
                             : fmt::format("{} of temporaries in {}", bytes_text(plan.temp_bytes),
                                           printable(plans.temp_directory)),
        plans.output_is_whole ? "" : "at most ", bytes_text(plan.input_bytes));
  print("  memory: at most {}\n", bytes_text(memory_bytes_max(plan)));
  if (plan.device && plan.seconds > 0) print("  time: {}\n", time_text(plan));
  if (plan.temp_memory_bytes > 0)
    print("  of the temporaries {} lie in memory (tmpfs), besides -S\n",
          bytes_text(plan.temp_memory_bytes));
  if (plan.compresses)
    print("  temporaries: {} before they are compressed\n", bytes_text(plan.spilled_bytes));
  if (verbose) print("  {} seeks\n", plan.seeks);
  if (!plan.phases.empty()) print_phases(plan);
  print_alternatives(plan);
}

std::string memory_text(const PlanPhase& phase) {
  const bowtie::Schedule& schedule = phase.pass.schedule;
  if (phase.sorts_buckets) return bytes_text(schedule.input_memory_bytes) + ", in place";
  return fmt::format("{} in, {} out", bytes_text(schedule.input_memory_bytes),
                     bytes_text(schedule.output_memory_bytes));
}

std::string streams_text(const bowtie::Pass& pass) {
  std::string text = fmt::format("{} x {}", pass.fan_in, pass.fan_out);
  if (pass.bowties > 1) text = fmt::format("{} of {}", pass.bowties, text);
  return text;
}

std::string algorithm_text(const PlanPhase& phase) {
  if (phase.sorts_buckets) return "";
  const bowtie::Schedule& schedule = phase.pass.schedule;
  std::string text = std::string("; schedule: ") + bowtie::name_of(schedule.algorithm);
  if (schedule.groups.inputs > 1) text += fmt::format(", c_r = {}", schedule.groups.inputs);
  if (schedule.groups.outputs > 1) text += fmt::format(", c_w = {}", schedule.groups.outputs);
  return text;
}

// The headline of a sort of --size.
void print_size(const DeviceView& view) {
  const bool distributes = view.best.passes > 1;
  print("sort: {} with {} of memory\n", bytes_text(view.bytes), bytes_text(view.memory_bytes));
  print("  passes: {}, because {}\n", view.best.passes,
        view.best.passes > 2 ? why_more_passes
        : distributes        ? why_two_passes
                             : "the input fits in memory");
  print("  disk: {}, and {} of output\n",
        distributes ? bytes_text(view.disk_bytes_max) + " of temporaries" : "no temporaries",
        bytes_text(view.bytes));
  print("  time: at least {} on {}, the processor's share not counted\n\n",
        in_time(view.best.seconds), printable(view.device.profile.name));
}

void print_view(const DeviceView& view) {
  const bowtie::DeviceProfile& device = view.device.profile;
  if (!view.device.emulated.empty()) {
    print("EMULATED, not a real disk: {}\n", view.device.emulated);
  }
  print("device: {}, {:.0f} MB/s read, {:.0f} MB/s write, a switch takes {:.3g} ms\n",
        printable(device.name), device.read_bytes_per_s / 1e6, device.write_bytes_per_s / 1e6,
        device.switch_seconds.at(view.inputs, view.outputs) * 1e3);
  const std::string& source = view.how_known.empty() ? device.source : view.how_known;
  if (!source.empty()) print("  {}\n", wrapped("(" + source + ")", 2));
  std::string task = fmt::format("{} through {} of memory, {} x {} files", bytes_text(view.bytes),
                                 bytes_text(view.memory_bytes), view.inputs, view.outputs);
  if (!view.best.factors.empty()) task += fmt::format(", in the factors {}", view.best.factors);
  print("{}\n\n", wrapped(task + (view.coarse ? " (coarse search)" : ""), 2, 0));

  print("{:<16} {:>15} {:>10} {:>10} {:>12} {:>10}\n", "phase", "streams", "read", "written",
        "time", "switches");
  for (const PlanPhase& phase : view.phases) {
    const bowtie::Pass& pass = phase.pass;
    print("{:<16} {:>15} {:>10} {:>10} {:>12} {:>10.0f}\n", phase.name, streams_text(pass),
          bytes_text(pass.read_bytes), bytes_text(pass.written_bytes), in_time(pass.seconds),
          pass.switches);
    print("  runs: {}; memory: {}{}\n", in_words(pass.schedule.run_bytes, bytes_of(pass)),
          memory_text(phase), algorithm_text(phase));
  }
  print("{:<16} {:>15} {:>10} {:>10} {:>12} {:>10.0f}\n", "together", "", "", "",
        in_time(view.best.seconds), view.best.switches);
  print("{:.0f} MB/s of input; at most {} on disk besides the input\n",
        view.bytes / view.best.seconds / 1e6, bytes_text(view.disk_bytes_max));
  for (size_t i = 0; i < view.phases.size(); ++i) {
    for (const std::string& note : view.phases[i].notes) {
      const std::string head = fmt::format("note on phase {} ({}): ", i + 1, view.phases[i].name);
      print("{}{}\n", head, wrapped(note, 2, head.size()));
    }
  }
  if (view.choices.empty()) return;
  print("\n{:<24} {:>7} {:>12} {:>12} {:>10}\n", "other choices", "passes", "switches", "time",
        "of ours");
  for (const PartitioningChoice& choice : view.choices) {
    print("{:<24} {:>7} {:>12.0f} {:>12} {:>8.2f} x{}\n", choice.name, choice.passes,
          choice.switches, in_time(choice.seconds), choice.seconds / view.best.seconds,
          choice.exceeds_memory ? "\n  (more streams than fit in the memory)" : "");
  }
}

Json planned_phase_json(const PlanPhase& phase) {
  const bowtie::Pass& pass = phase.pass;
  const bowtie::Schedule& schedule = pass.schedule;
  const bool endless = !(schedule.run_bytes < bytes_of(pass));
  return {{"phase", phase.name},
          {"bowties", pass.bowties},
          {"fan_in", pass.fan_in},
          {"fan_out", pass.fan_out},
          {"files_in", pass.files_in},
          {"files_out", pass.files_out},
          {"bytes_read", pass.read_bytes},
          {"bytes_written", pass.written_bytes},
          {"seconds", pass.seconds},
          {"switches", pass.switches},
          // null: every stream is read or written in one go.
          {"run_bytes", endless ? Json(nullptr) : Json(schedule.run_bytes)},
          {"input_memory_bytes", schedule.input_memory_bytes},
          {"output_memory_bytes", schedule.output_memory_bytes},
          {"algorithm",
           phase.sorts_buckets ? Json(nullptr) : Json(bowtie::name_of(schedule.algorithm))},
          {"group_inputs", schedule.groups.inputs},
          {"group_outputs", schedule.groups.outputs},
          {"notes", phase.notes}};
}

Json choice_json(const PartitioningChoice& choice, double best_seconds) {
  return {{"name", choice.name},
          {"factors", choice.factors},
          {"passes", choice.passes},
          {"switches", choice.switches},
          {"seconds", choice.seconds},
          {"over_best", best_seconds > 0 ? choice.seconds / best_seconds : 1},
          {"exceeds_memory", choice.exceeds_memory}};
}

}  // namespace

std::string plans_json(const Plans& plans) {
  const DeviceView& view = plans.view;
  Json device = api::profile_json(view.device, nullptr);
  device["delay_known"] = view.how_known.empty();
  Json json = {{"version", 2},
               {"command", "plan"},
               {"sort", plans.sort ? api::plan_object(*plans.sort) : Json(nullptr)},
               {"device", std::move(device)},
               {"inputs", view.inputs},
               {"outputs", view.outputs},
               {"bytes", view.bytes},
               {"memory_bytes", view.memory_bytes},
               {"search", view.coarse ? "coarse" : "exact"},
               {"factors", view.best.factors},
               {"seconds", view.best.seconds},
               {"switches", view.best.switches},
               {"bytes_per_s", view.best.seconds > 0 ? view.bytes / view.best.seconds : 0},
               {"disk_bytes_max", view.disk_bytes_max},
               {"phases", Json::array()},
               {"alternatives", Json::array()}};
  for (const PlanPhase& phase : view.phases) json["phases"].push_back(planned_phase_json(phase));
  for (const PartitioningChoice& choice : view.choices) {
    json["alternatives"].push_back(choice_json(choice, view.best.seconds));
  }
  // A path need not be UTF-8.
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

void print_plans(const Plans& plans, bool verbose) {
  if (plans.sort) print_sort(plans, verbose);
  if (plans.sorts_size) print_size(plans.view);
  const bool has_view = !plans.view.phases.empty();
  if (plans.sort && verbose && has_view) print("\n");
  if (has_view && (!plans.sort || verbose)) print_view(plans.view);
}

}  // namespace penstock::cli
