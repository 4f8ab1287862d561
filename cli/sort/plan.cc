// penstock plan: the work and cost of a sort, a merge, a distribution or any bowtie, without
// writing anything.
//
// There are two views. The sort's own plan (plan_sort_files()) looks at the input files. The
// device's view comes from the planner of src/files/bowtie: it finds the best number of passes for
// the same data on one device with a switch delay, and the cost of other choices. Without files
// only the device's view is possible, for a given size.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/amounts.h"
#include "base/misuse.h"
#include "base/printable.h"
#include "cli/common/command.h"
#include "cli/common/modes.h"
#include "cli/common/print.h"
#include "cli/common/size.h"
#include "cli/sort/sort_words.h"
#include "files/bowtie/planner.h"
#include "files/sort/external_sort.h"
#include "files/sort/plan/probe.h"
#include "interfaces/api/json.h"
#include "interfaces/api/profile_json.h"
#include "io/emulation.h"
#include "io/temporaries.h"

namespace penstock::cli {
namespace {

using Json = nlohmann::ordered_json;

// The exact search takes time quadratic in the number of streams: about a second for this many.
constexpr uint32_t exact_streams_max = 4096;
constexpr uint32_t streams_max = 1 << 24;

struct PlanArguments : SortWords {
  explicit PlanArguments(Parser of) : parser(of) {}

  Parser parser;
  std::string size;
  std::optional<uint32_t> inputs_wanted;
  std::optional<uint32_t> outputs_wanted;
  bool verbose = false;
};

// A phase: a pass of the planner, or the sort of the buckets.
struct Phase {
  std::string name;
  bowtie::Pass pass;
  bool sorts_buckets = false;
  std::vector<std::string> notes;  // conditions that the model does not cover
};

struct PartitioningChoice {
  std::string name;
  std::string factors;
  size_t passes = 0;
  double seconds = 0;
  double switches = 0;
  bool exceeds_memory = false;
};

struct DeviceView {
  api::ProfileFile device;
  std::string how_known;  // source of a profile that is not from a file
  uint64_t memory_bytes = 0;
  double bytes = 0;
  uint32_t inputs = 0;
  uint32_t outputs = 0;
  bool coarse = false;
  std::vector<Phase> phases;
  PartitioningChoice best;
  double disk_bytes_max = 0;
  std::vector<PartitioningChoice> choices;
};

struct Plans {
  std::optional<SortPlan> sort;
  DeviceView view;
};

// --- Numbers for people. ---

std::string in_time(double seconds) {
  if (seconds < 100) return fmt::format("{:.{}f} s", seconds, seconds < 10 ? 2 : 1);
  const auto whole = static_cast<uint64_t>(std::llround(seconds));
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}
std::string in_words(double run_bytes, double pass_bytes) {
  return run_bytes < pass_bytes ? bytes_text(run_bytes) : "all";
}

// --- The device's view. ---

double bytes_of(const bowtie::Pass& pass) {
  return pass.read_bytes + pass.written_bytes;
}

// The model's own notes on a pass that it does not fully cover.
std::vector<std::string> notes_on(const bowtie::Pass& pass, const bowtie::DeviceProfile& device) {
  if (pass.schedule.bowtie.inputs + pass.schedule.bowtie.outputs == 0) return {};
  const double bytes = bytes_of(pass) / static_cast<double>(pass.bowties);
  return bowtie::predict(pass.schedule, bytes, device).beyond_model();
}

std::string name_of_pass(const bowtie::Pass& pass) {
  std::string name = bowtie::name_of(pass.kind);
  if (pass.kind == bowtie::Pass::Kind::bowtie && pass.fan_in <= 1) name = "distribute";
  if (pass.kind == bowtie::Pass::Kind::bowtie && pass.fan_out <= 1) name = "merge";
  if (pass.fan_in <= 1 && pass.fan_out <= 1) name = "copy";
  return name;
}

// The phase that moves all data from files to memory and back, in `pieces` pieces, each read and
// written in one run.
Phase through_memory(std::string name, double bytes, uint64_t pieces, uint64_t memory_bytes,
                     const bowtie::DeviceProfile& device) {
  Phase phase{.name = std::move(name), .sorts_buckets = true};
  bowtie::Pass& pass = phase.pass;
  pass.fan_in = pass.fan_out = 1;
  pass.bowties = pass.files_in = pieces;
  pass.files_out = 1;
  pass.read_bytes = pass.written_bytes = bytes;
  pass.switches = 2.0 * static_cast<double>(pieces);
  pass.seconds = bowtie::seconds_of(
      {.read_bytes = bytes, .written_bytes = bytes, .switches = pass.switches}, device, 1, 1);
  pass.schedule.run_bytes = bytes / static_cast<double>(pieces);
  // The pieces are read, sorted in place and written in the same memory.
  pass.schedule.input_memory_bytes = memory_bytes;
  return phase;
}

// A task to plan on the device.
struct DeviceTask {
  uint32_t inputs = 0;
  uint32_t outputs = 0;
  double bytes = 0;
  uint64_t memory_bytes = 0;
  uint64_t buckets = 0;     // number of buckets to sort in the last phase; 0: no such phase
  bool distributes = true;  // false: everything fits in memory
};

Status plan_on_device(const DeviceTask& task, DeviceView& view) {
  view.memory_bytes = task.memory_bytes;
  view.bytes = task.bytes;
  view.inputs = task.inputs;
  view.outputs = task.outputs;
  const bowtie::DeviceProfile& device = view.device.profile;
  std::optional<Phase> sorting;
  if (task.buckets > 0) {
    sorting = through_memory(task.distributes ? "sort the buckets" : "sort in memory", task.bytes,
                             task.buckets, task.memory_bytes, device);
  }
  auto choice = [&](std::string name, const bowtie::Plan* plan) {
    PartitioningChoice made{.name = std::move(name)};
    if (plan != nullptr) {
      made.factors = plan->factors();
      made.passes = plan->passes.size();
      made.seconds = plan->seconds;
      made.switches = plan->switches;
      made.exceeds_memory = plan->exceeds_memory;
    }
    if (sorting) {
      made.passes += 1;
      made.seconds += sorting->pass.seconds;
      made.switches += sorting->pass.switches;
    }
    return made;
  };

  if (task.distributes) {
    const bowtie::PlanRequest request{.inputs = task.inputs,
                                      .outputs = task.outputs,
                                      .bytes = task.bytes,
                                      .memory_bytes = task.memory_bytes,
                                      .device = &device};
    view.coarse = std::max(task.inputs, task.outputs) > exact_streams_max;
    auto plan =
        bowtie::plan_bowtie(request, view.coarse ? bowtie::Search::coarse : bowtie::Search::exact);
    if (!plan) return std::unexpected(plan.error());
    for (const bowtie::Pass& pass : plan->passes) {
      view.phases.push_back({name_of_pass(pass), pass, false, notes_on(pass, device)});
    }
    view.best = choice("this plan", &*plan);
    view.disk_bytes_max = plan->disk_bytes_max;
    for (const bowtie::Alternative& other : bowtie::alternatives(request, *plan)) {
      view.choices.push_back(choice(other.name, &other.plan));
    }
  } else {
    view.best = choice("this plan", nullptr);
    view.disk_bytes_max = task.bytes;
  }
  if (sorting) view.phases.push_back(std::move(*sorting));
  return {};
}

// --- Requests. ---

std::string temp_directory_of(const FilesOptions& options) {
  return io::temp_directories_or_default(options.temp_directories, options.output).front();
}

// The named device, or the disk of the temporaries with speeds measured just now.
Result<DeviceView> device_for(const PlanArguments& arguments, const FilesOptions* options,
                              const SortPlan* sort) {
  DeviceView view;
  if (!arguments.device.empty()) {
    auto device = api::load_device(arguments.device);
    if (!device) return std::unexpected(device.error());
    view.device = std::move(*device);
    return view;
  }
  if (options == nullptr) {
    return misuse("plan for no device", "--size",
                  "--device array24, hdd, sata-ssd, nvme, or a "
                  "profile that penstock disk has saved");
  }
  if (auto emulated = io::emulated()) view.device.emulated = emulated->describe();
  if (sort->device && !sort->device_is_assumed) {
    // The sort's plan and ours are for the same disk.
    view.device.profile = *sort->device;
  } else {
    const std::string directory = temp_directory_of(*options);
    auto speed = external::probe_disk(directory, {.depth = 4});
    if (!speed) return std::unexpected(speed.error());
    view.device.profile = {.name = "the disk of " + directory,
                           .source = "",
                           .read_bytes_per_s = speed->read_bytes_per_s,
                           .write_bytes_per_s = speed->write_bytes_per_s};
  }
  if (view.device.emulated.empty()) {
    view.how_known =
        "its speeds were measured just now, its switch delay is taken for 0: penstock "
        "disk measures it";
  }
  return view;
}

Result<Plans> plan_files(const PlanArguments& arguments) {
  if (std::ranges::find(arguments.inputs, "-") != arguments.inputs.end()) {
    return misuse("plan for standard input", "-", "a FILE, or --size");
  }
  if (auto obeyed = arguments.parser.refuse_outside(modes::plans_files); !obeyed)
    return std::unexpected(obeyed.error());
  if (arguments.sort.merge_only) {
    if (auto obeyed = arguments.parser.refuse_outside(modes::merges); !obeyed)
      return std::unexpected(obeyed.error());
  }
  auto request = sort_request(arguments);
  if (!request) return std::unexpected(request.error());
  const FilesOptions* const options = &request->files;
  auto sort = plan_sort_files(request->files, request->sort);
  if (!sort) return std::unexpected(sort.error());
  auto view = device_for(arguments, options, &*sort);
  if (!view) return std::unexpected(view.error());
  Plans plans{*sort, std::move(*view)};
  // The planner has choices only if all of the data move.
  if (sort->method == SortMethod::empty || sort->method == SortMethod::top) return plans;

  DeviceTask task{.inputs = 1,
                  .outputs = 1,
                  .bytes = static_cast<double>(sort->input_bytes),
                  .memory_bytes = options->memory_bytes};
  if (sort->input_bytes == 0) {
    return misuse("plan for an unknown length (a pipe, or compressed data)",
                  arguments.inputs.front(), "--size");
  }
  switch (sort->method) {
    case SortMethod::empty:
    case SortMethod::top:
      break;
    case SortMethod::in_memory:
      task.distributes = false;
      task.buckets = 1;
      break;
    case SortMethod::merge:
      task.inputs = std::max(1u, sort->buckets);
      break;
    case SortMethod::distribute: {
      // Plans of more than two passes have buckets of buckets: these count.
      const uint64_t full = (sort->input_bytes + options->memory_bytes - 1) / options->memory_bytes;
      task.outputs = static_cast<uint32_t>(std::max<uint64_t>(sort->buckets, full));
      task.buckets = task.outputs;
      break;
    }
  }
  if (auto planned = plan_on_device(task, plans.view); !planned) {
    return std::unexpected(planned.error());
  }
  return plans;
}

Result<Plans> plan_size(const PlanArguments& arguments) {
  if (!arguments.inputs.empty()) {
    return misuse("plan for a file and for a size at once", "--size", "one of the two");
  }
  if (auto obeyed = arguments.parser.refuse_outside(modes::plans_size); !obeyed)
    return std::unexpected(obeyed.error());
  auto bytes = parse_size("--size", arguments.size, 0);
  if (!bytes) return std::unexpected(bytes.error());
  auto memory_bytes = memory_bytes_of(arguments);
  if (!memory_bytes) return std::unexpected(memory_bytes.error());
  auto view = device_for(arguments, nullptr, nullptr);
  if (!view) return std::unexpected(view.error());
  Plans plans{{}, std::move(*view)};

  DeviceTask task{.bytes = static_cast<double>(*bytes), .memory_bytes = *memory_bytes};
  if (arguments.inputs_wanted || arguments.outputs_wanted) {
    task.inputs = arguments.inputs_wanted.value_or(1);
    task.outputs = arguments.outputs_wanted.value_or(1);
    if (task.inputs + task.outputs == 0) {
      return misuse("stream from nothing to nothing", "--inputs 0 --outputs 0", "--outputs 1");
    }
  } else {
    // A sort has one input, and so many buckets that each fits in memory.
    const uint64_t buckets = (*bytes + *memory_bytes - 1) / *memory_bytes;
    if (buckets > streams_max) {
      return misuse(fmt::format("plan for {} buckets", buckets), "-S", "a larger one");
    }
    task.inputs = 1;
    task.outputs = static_cast<uint32_t>(buckets);
    task.buckets = buckets;
    task.distributes = buckets > 1;
  }
  if (auto planned = plan_on_device(task, plans.view); !planned) {
    return std::unexpected(planned.error());
  }
  return plans;
}

Result<Plans> make_plans(const PlanArguments& arguments) {
  if (!arguments.size.empty()) return plan_size(arguments);
  if (arguments.inputs_wanted || arguments.outputs_wanted) {
    return misuse("plan a number of streams without their size",
                  arguments.inputs_wanted ? "--inputs" : "--outputs", "--size");
  }
  if (arguments.inputs.empty()) return misuse("plan for nothing", "FILE", "a FILE, or --size");
  return plan_files(arguments);
}

// --- Output. ---

std::string bytes_or_none(uint64_t bytes) {
  return bytes > 0 ? bytes_text(bytes) : "-";
}

// A size in the form of -S's value.
std::string memory_option(uint64_t bytes) {
  return bytes % GiB == 0 ? fmt::format("{}G", bytes / GiB) : fmt::format("{}M", bytes / MiB);
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
  print("{:<28} {:>10} {:>10} {:>10}  {}\n", "together", bytes_text(plan.bytes_read),
        bytes_text(plan.bytes_written), in_time(plan.seconds),
        plan.device_is_assumed ? "for a typical disk: so little data is not worth a measurement"
                               : fmt::format("likely {} to {}", in_time(plan.seconds_low),
                                             in_time(plan.seconds_high)));
}

void print_alternatives(const SortPlan& plan) {
  if (plan.alternatives.empty()) return;
  print("\n{:<28} {:>10} {:>10} {:>10}\n", "with another budget", "passes", "disk space", "time");
  for (const SortAlternative& other : plan.alternatives) {
    print("{:<28} {:>10} {:>10} {:>10}\n", "-S " + memory_option(other.memory_bytes), other.passes,
          bytes_or_none(other.temp_bytes), in_time(other.seconds));
  }
}

void print_sort(const SortPlan& plan, bool verbose) {
  print("sort: {}\n", plan.method == SortMethod::empty ? "nothing to do" : plan.why);
  print("  method {}, {} of input, {} passes, {} buckets\n", name_of(plan.method),
        bytes_text(plan.input_bytes), plan.passes, plan.buckets);
  print("  {} of temporaries beside the output, {} of memory at the peak\n",
        bytes_text(plan.temp_bytes), bytes_text(plan.memory_bytes));
  if (plan.temp_memory_bytes > 0)
    print("  of the temporaries {} lie in memory (tmpfs), beside -S\n",
          bytes_text(plan.temp_memory_bytes));
  if (plan.compresses)
    print("  temporaries: {} before they are compressed\n", bytes_text(plan.spilled_bytes));
  if (verbose) print("  {} seeks\n", plan.seeks);
  if (!plan.phases.empty()) print_phases(plan);
  print_alternatives(plan);
}

std::string memory_text(const Phase& phase) {
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

std::string algorithm_text(const Phase& phase) {
  if (phase.sorts_buckets) return "-";
  const bowtie::Schedule& schedule = phase.pass.schedule;
  std::string text = bowtie::name_of(schedule.algorithm);
  if (schedule.groups.inputs > 1) text += fmt::format(", c_r = {}", schedule.groups.inputs);
  if (schedule.groups.outputs > 1) text += fmt::format(", c_w = {}", schedule.groups.outputs);
  return text;
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
  if (!source.empty()) print("  ({})\n", source);
  print("{} through {} of memory, {} x {} files", bytes_text(view.bytes),
        bytes_text(view.memory_bytes), view.inputs, view.outputs);
  if (!view.best.factors.empty()) print(", in the factors {}", view.best.factors);
  print("{}\n\n", view.coarse ? " (coarse search)" : "");

  print("{:<18} {:>16} {:>10} {:>10} {:>12} {:>10} {:>9}  {:<26} {}\n", "phase", "streams", "read",
        "written", "time", "switches", "run", "memory", "schedule");
  for (const Phase& phase : view.phases) {
    const bowtie::Pass& pass = phase.pass;
    print("{:<18} {:>16} {:>10} {:>10} {:>12} {:>10.0f} {:>9}  {:<26} {}\n", phase.name,
          streams_text(pass), bytes_text(pass.read_bytes), bytes_text(pass.written_bytes),
          in_time(pass.seconds), pass.switches, in_words(pass.schedule.run_bytes, bytes_of(pass)),
          memory_text(phase), algorithm_text(phase));
  }
  print("{:<18} {:>16} {:>10} {:>10} {:>12} {:>10.0f}\n", "together", "", "", "",
        in_time(view.best.seconds), view.best.switches);
  print("{:.0f} MB/s of input; at most {} on disk beside the input\n",
        view.bytes / view.best.seconds / 1e6, bytes_text(view.disk_bytes_max));
  for (size_t i = 0; i < view.phases.size(); ++i) {
    for (const std::string& note : view.phases[i].notes) {
      print("note on phase {} ({}): {}\n", i + 1, view.phases[i].name, note);
    }
  }
  if (view.choices.empty()) return;
  print("\n{:<24} {:>7} {:>12} {:>12} {:>10}\n", "other choices", "passes", "switches", "time",
        "of ours");
  for (const PartitioningChoice& choice : view.choices) {
    print("{:<24} {:>7} {:>12.0f} {:>12} {:>8.2f} x{}\n", choice.name, choice.passes,
          choice.switches, in_time(choice.seconds), choice.seconds / view.best.seconds,
          choice.exceeds_memory ? "  (more streams than fit the memory)" : "");
  }
}

Json phase_json(const Phase& phase) {
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

Json plans_json(const Plans& plans) {
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
  for (const Phase& phase : view.phases) json["phases"].push_back(phase_json(phase));
  for (const PartitioningChoice& choice : view.choices) {
    json["alternatives"].push_back(choice_json(choice, view.best.seconds));
  }
  return json;
}

int run(const PlanArguments& arguments) {
  Result<Plans> plans = make_plans(arguments);
  if (!plans) return report("plan", plans.error());
  if (arguments.json) {
    // A path need not be UTF-8.
    print("{}\n", plans_json(*plans).dump(2, ' ', false, Json::error_handler_t::replace));
    return exit_ok;
  }
  if (plans->sort) print_sort(*plans->sort, arguments.verbose);
  const bool has_view = !plans->view.phases.empty();
  if (plans->sort && arguments.verbose && has_view) print("\n");
  if (has_view && (!plans->sort || arguments.verbose)) print_view(plans->view);
  return exit_ok;
}

}  // namespace

Command add_plan(Parser& program) {
  Parser parser = program.add_subcommand(
      "plan", "show the work and cost of a sort, merge or distribution, without doing it");
  auto arguments = std::make_shared<PlanArguments>(parser);
  PlanArguments& a = *arguments;
  parser.footer(std::string(sort_words_footer) +
                "\n"
                "Examples:\n"
                "  penstock plan big.u64 --format u64 -S 1G --device profile.json\n"
                "  penstock plan --size 8T -S 2G --device array24              a sort of 8 TiB\n"
                "  penstock plan --size 64T --inputs 8000 -S 8G --device hdd   a merge\n"
                "  penstock plan --size 1T --inputs 3 --outputs 100 -S 4G --device array24");
  add_sort_words(parser, a);
  constexpr unsigned files = modes::plan | modes::merging;
  parser.add_option("--size", a.size, "plan for an input of this size instead of files")
      .in(modes::plan_of_size);
  parser
      .add_option("--inputs", a.inputs_wanted,
                  "number of files to merge, with --size; 0: the data come from memory")
      .within(0u, streams_max)
      .in(modes::plan_of_size);
  parser
      .add_option("--outputs", a.outputs_wanted,
                  "number of files to write, with --size; 0: the data stay in memory")
      .within(0u, streams_max)
      .in(modes::plan_of_size);
  parser.add_flag("--json", a.json, "print the plan as JSON").in(files | modes::plan_of_size);
  parser
      .add_flag("--verbose", a.verbose,
                "also show the schedules, runs and switches on the device (docs/bowtie.md)")
      .in(files | modes::plan_of_size);
  return {parser, [arguments] { return run(*arguments); }};
}

}  // namespace penstock::cli
