// penstock plan: the work and cost of a sort, a merge, a distribution or any bowtie, without
// writing anything.
//
// There are two views. The sort's own plan (plan_sort_files()) looks at the input files. The
// device's view comes from the planner of src/files/bowtie: it finds the best number of passes for
// the same data on one device with a switch delay, and the cost of other choices. Without files
// only the device's view is possible, for a given size.

#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/amounts.h"
#include "base/misuse.h"
#include "cli/common/command.h"
#include "cli/common/input_notices.h"
#include "cli/common/modes.h"
#include "cli/common/print.h"
#include "cli/common/size.h"
#include "cli/sort/plan_text.h"
#include "cli/sort/sort_words.h"
#include "files/bowtie/planner.h"
#include "files/run/memory_plan.h"
#include "files/sort/external_sort.h"
#include "files/sort/plan/probe.h"
#include "interfaces/api/profile_json.h"
#include "io/emulation.h"
#include "io/temporaries.h"

namespace penstock::cli {
namespace {

// The exact search takes time quadratic in the number of streams: about a second for this many.
constexpr uint32_t exact_streams_max = 4096;
constexpr uint32_t streams_max = 1 << 24;

// The device of a plan of a size without --device.
constexpr const char* usual_device = "nvme";

struct PlanArguments : SortWords {
  explicit PlanArguments(Parser of) : parser(of) {}

  Parser parser;
  std::string size;
  std::optional<uint32_t> inputs_wanted;
  std::optional<uint32_t> outputs_wanted;
  bool verbose = false;
};

// --- The device's view. ---

// The model's own notes on a pass that it does not fully cover.
std::vector<std::string> notes_on(const bowtie::Pass& pass, const bowtie::DeviceProfile& device) {
  if (pass.schedule.bowtie.inputs + pass.schedule.bowtie.outputs == 0) return {};
  const double bytes = (pass.read_bytes + pass.written_bytes) / static_cast<double>(pass.bowties);
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
PlanPhase through_memory(std::string name, double bytes, uint64_t pieces, uint64_t memory_bytes,
                         const bowtie::DeviceProfile& device) {
  PlanPhase phase{.name = std::move(name), .sorts_buckets = true};
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
  std::optional<PlanPhase> sorting;
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
    auto device = api::load_device(usual_device);
    if (!device) return std::unexpected(device.error());
    view.device = std::move(*device);
    view.how_known = "a usual disk: --device takes another, or a profile that penstock disk saved";
    return view;
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

Status refuse_standard_input(const std::vector<std::string>& inputs) {
  if (std::ranges::find(inputs, "-") == inputs.end()) return {};
  return misuse("plan for standard input", "-", "a FILE, or --size");
}

Result<Plans> plan_files(const PlanArguments& arguments) {
  if (auto files = refuse_standard_input(arguments.inputs); !files)
    return std::unexpected(files.error());
  if (auto obeyed = arguments.parser.refuse_outside(modes::plans_files); !obeyed)
    return std::unexpected(obeyed.error());
  if (arguments.sort.merge_only) {
    if (auto obeyed = arguments.parser.refuse_outside(modes::merges); !obeyed)
      return std::unexpected(obeyed.error());
  }
  auto request = sort_request(arguments);
  if (!request) return std::unexpected(request.error());
  const FilesOptions* const options = &request->files;
  if (auto files = refuse_standard_input(options->inputs); !files)
    return std::unexpected(files.error());
  print_notices("plan", notices_of(arguments, *options));
  auto sort = plan_sort_files(request->files, request->sort);
  if (!sort) return std::unexpected(sort.error());
  auto view = device_for(arguments, options, &*sort);
  if (!view) return std::unexpected(view.error());
  Plans plans{.sort = *sort,
              .view = std::move(*view),
              .temp_directory = temp_directory_of(*options),
              .has_header = options->items.header_lines > 0,
              .output_is_whole = !request->sort.top && !request->sort.unique};
  // The planner has choices only if all of the data move.
  if (sort->method == SortMethod::empty || sort->method == SortMethod::top) return plans;

  DeviceTask task{.inputs = 1,
                  .outputs = 1,
                  .bytes = static_cast<double>(sort->input_bytes),
                  .memory_bytes = options->memory_bytes};
  if (sort->input_bytes == 0) {
    return misuse("plan for an unknown length (a pipe, or compressed data)",
                  options->inputs.front(), "--size");
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
  if (*memory_bytes < files::files_memory_bytes_min)
    return failure(ErrorCode::out_of_memory, "sort within " + files::budget_text(*memory_bytes),
                   "-S", fmt::format("at least {}M", files::files_memory_bytes_min / MiB));
  auto view = device_for(arguments, nullptr, nullptr);
  if (!view) return std::unexpected(view.error());
  Plans plans{.view = std::move(*view)};

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
    plans.sorts_size = true;
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
  if (arguments.inputs.empty() && arguments.gnu.files0_from.empty())
    return misuse("plan for nothing", "FILE", "a FILE, or --size");
  return plan_files(arguments);
}

int run_plan(const PlanArguments& arguments) {
  Result<Plans> plans = make_plans(arguments);
  if (!plans) return report("plan", plans.error());
  if (arguments.json) {
    print("{}\n", plans_json(*plans));
  } else {
    print_plans(*plans, arguments.verbose);
  }
  return exit_ok;
}

}  // namespace

Command add_plan(Parser& program) {
  Parser parser =
      program.add_subcommand("plan", "show the cost of a sort or merge without doing it");
  auto arguments = std::make_shared<PlanArguments>(parser);
  PlanArguments& a = *arguments;
  parser.describe(
      {.examples =
           {{"penstock plan big.txt -S 1G", "how a sort of this file would go, and how long"},
            {"penstock plan big.u64 --format u64 --device profile.json",
             "the same on a disk that penstock disk has measured"},
            {"penstock plan --size 8T -S 2G --device array24", "a sort of 8 TiB on a disk array"},
            {"penstock plan --size 64T --inputs 8000 -S 8G --device hdd", "a merge of 8000 files"},
            {"penstock plan --size 1T --inputs 3 --outputs 100 -S 4G --device array24",
             "a distribution of three files to a hundred"}},
       .notes = {note_on_sizes}});
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
  return {parser, [arguments] { return run_plan(*arguments); }};
}

}  // namespace penstock::cli
