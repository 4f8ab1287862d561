#include "external/merge_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <system_error>

#include "bowtie/computations.h"
#include "bowtie/planner.h"
#include "external/file_io.h"
#include "external/sort_prediction.h"
#include "file/temporaries.h"

namespace penstock::external {
namespace {

constexpr int64_t report_every_ns = 100'000'000;

// The executor says that a file is not in order, and of a single pass which one. Where in it, or of
// several passes in which of all of them, is worth another look.
Error with_item(Error error, const MergeFilesOptions& options, bool single_pass) {
  if (error.code != ErrorCode::unsorted) return error;
  error.hint = "penstock sort";
  std::vector<std::string> again;  // what can be read once more
  for (const std::string& path : single_pass ? std::vector{error.subject} : options.files.inputs) {
    std::error_code ignored;
    if (path != "-" && std::filesystem::is_regular_file(path, ignored)) again.push_back(path);
  }
  if (again.empty()) return error;
  auto found = find_disorder({.inputs = again,
                              .format = options.files.format,
                              .memory_bytes = options.files.memory_bytes,
                              .descending = options.descending,
                              .cancel = options.files.cancel,
                              .source = options.files.source});
  if (!found || !*found) return error;
  error.subject = (*found)->path;
  error.attempted =
      fmt::format("merge: item {} is not in order ({})", (*found)->item + 1, (*found)->text);
  return error;
}

// The merge of a run that has started.
class Merge {
 public:
  Merge(const MergeFilesOptions& options, FileRun& run) : options_(options), run_(run) {}

  // Fails where the disks have no room for it.
  Status plan();
  const MergeFilesPlan& planned() const { return planned_; }
  // The items of the output.
  Result<uint64_t> go(const bowtie::Output& output);

 private:
  Status choose();

  const MergeFilesOptions& options_;
  FileRun& run_;
  MergeFilesPlan planned_;
  bowtie::Plan plan_;
};

Status Merge::plan() {
  if (auto status = choose(); !status) return status;
  if (planned_.input_bytes == 0) return {};
  if (options_.top) {
    // Where the first items lie is known when they have come.
    planned_.seconds = 0;
    planned_.bytes_read = planned_.bytes_written = planned_.switches = 0;
    return {};
  }
  return check_space({.output = options_.output,
                      .output_bytes = planned_.input_bytes,
                      .temp_directories = run_.temp_directories(),
                      .temp_bytes = planned_.temp_bytes,
                      .memory_bytes = options_.files.memory_bytes});
}

// What a plan's passes hold beside the output: each reads what the one before it wrote, and that
// goes when it has ended.
uint64_t temp_bytes_of(const bowtie::Plan& plan) {
  double most = 0;
  for (size_t i = 0; i + 1 < plan.passes.size(); ++i) {
    const double before = i > 0 ? plan.passes[i - 1].written_bytes : 0;
    most = std::max(most, before + plan.passes[i].written_bytes);
  }
  return static_cast<uint64_t>(most);
}

Status Merge::choose() {
  planned_.files = static_cast<uint32_t>(run_.inputs().size());
  const bool known = run_.input_bytes() != bowtie::unknown_bytes;
  if (known) planned_.input_bytes = run_.input_bytes();
  if (planned_.files == 0) return {};
  if (planned_.files == 1) {
    // Nothing to merge: read and written, in order.
    planned_.passes = 1;
    planned_.factors = "1";
    planned_.bytes_read = planned_.bytes_written = planned_.input_bytes;
    const auto bytes = static_cast<double>(planned_.input_bytes);
    if (known) {
      planned_.seconds =
          bowtie::seconds_of({.read_bytes = bytes, .written_bytes = bytes}, run_.device(), 1, 1);
    }
    return {};
  }
  auto plan = bowtie::plan_bowtie({.inputs = planned_.files,
                                   .outputs = 1,
                                   .bytes = static_cast<double>(known ? run_.input_bytes() : TiB),
                                   .memory_bytes = run_.usable_bytes(),
                                   .device = &run_.device(),
                                   .stream_bytes_min = run_.planned_stream_bytes()},
                                  bowtie::Search::coarse);
  if (!plan) return std::unexpected(plan.error());
  plan_ = std::move(*plan);
  planned_.factors = plan_.factors();
  planned_.passes = static_cast<uint32_t>(plan_.passes.size());
  if (!known) return {};
  planned_.seconds = plan_.seconds;
  planned_.switches = static_cast<uint64_t>(plan_.switches);
  for (const bowtie::Pass& pass : plan_.passes) {
    planned_.bytes_read += static_cast<uint64_t>(pass.read_bytes);
    planned_.bytes_written += static_cast<uint64_t>(pass.written_bytes);
  }
  planned_.temp_bytes = temp_bytes_of(plan_);
  return {};
}

Result<uint64_t> Merge::go(const bowtie::Output& output) {
  uint64_t items = 0;
  const record::Format& format = options_.files.format;
  const bowtie::MergeOptions merging{.descending = options_.descending,
                                     .unique = options_.unique,
                                     .items_max = options_.top.value_or(~uint64_t{0}),
                                     .items = &items};
  const FileRun::PassOptions pass{.format = format,
                                  .memory_bytes = run_.usable_bytes(),
                                  .phase = "merge",
                                  .total_bytes = planned_.bytes_read + planned_.bytes_written};
  if (planned_.passes == 0) return items;
  auto merged =
      planned_.passes == 1
          ? run_.pass(run_.inputs(), {output}, bowtie::merge(format, merging), pass)
          : run_.plan(plan_, run_.inputs(), {output}, bowtie::stepped_merge(format, merging), pass);
  if (!merged) return std::unexpected(with_item(merged.error(), options_, planned_.passes == 1));
  if (auto status = run_.interrupted(); !status) return std::unexpected(status.error());
  return items;
}

MergeFilesOptions options_of(const SortOptions& options) {
  return {.files = {.inputs = options.inputs,
                    .format = options.format,
                    .memory_bytes = options.memory_bytes,
                    .temp_directories = options.temp_directories,
                    .output = options.output,
                    .device = options.device.get(),
                    .cancel = options.cancel,
                    .progress = options.progress,
                    .notice = options.notice,
                    .record_staircases = options.record_staircases,
                    .output_rules = options.output_rules,
                    .source = options.source},
          .output = options.output,
          .descending = options.descending,
          .unique = options.unique,
          .top = options.top};
}

// With what is known of the disk.
SortOptions with_device(const SortOptions& given) {
  SortOptions options = given;
  if (auto device = known_device(given))
    options.device = std::make_shared<const bowtie::DeviceProfile>(std::move(*device));
  return options;
}

SortPlan sort_plan_of(const MergeFilesPlan& planned, const SortOptions& options) {
  SortPlan plan;
  plan.memory_bytes = options.memory_bytes;
  if (planned.files == 0) {
    plan.why = "the input is empty";
    return plan;
  }
  plan.method = Method::merge;
  plan.why = "the inputs are said to be sorted";
  plan.input_bytes = planned.input_bytes;
  plan.buckets = planned.files;
  plan.passes = planned.passes;
  plan.bytes_read = planned.bytes_read;
  plan.bytes_written = planned.bytes_written;
  plan.temp_bytes = planned.temp_bytes;
  plan.temp_memory_bytes = file::temporaries_in_memory(
      file::temp_directories_or_default(options.temp_directories, options.output),
      planned.temp_bytes);
  plan.seeks = planned.switches;
  if (options.device != nullptr) {
    plan.device = *options.device;
    plan.seconds = planned.seconds;
  }
  // Nothing is predicted of what comes in order, nor of the first items alone.
  if (planned.bytes_read > 0) {
    plan.phases = {{.name = "merge",
                    .seconds = plan.seconds,
                    .bytes_read = plan.bytes_read,
                    .bytes_written = plan.bytes_written,
                    .seeks = plan.seeks}};
  }
  return plan;
}

Status refuse_pool(const SortOptions& options) {
  if (options.mechanism == pool::Mechanism::automatic) return {};
  return failure(ErrorCode::invalid_argument, "choose how a merge moves memory",
                 fmt::format("--pool {}", pool::name_of(options.mechanism)), "-m without --pool");
}

}  // namespace

Result<MergeFilesPlan> plan_merge(const MergeFilesOptions& options) {
  FileRun run(options.files, "merge");
  if (auto status = run.start(); !status) return std::unexpected(status.error());
  Merge merge(options, run);
  if (auto status = merge.plan(); !status) return std::unexpected(status.error());
  return merge.planned();
}

Result<MergeFilesStats> merge_files(const MergeFilesOptions& options) {
  FileRun run(options.files, "merge");
  if (auto status = run.start(); !status) return std::unexpected(status.error());
  Merge merge(options, run);
  if (auto status = merge.plan(); !status) return std::unexpected(status.error());
  const bool all = !options.unique && !options.top && run.input_bytes() != bowtie::unknown_bytes;
  auto output =
      file::File::create_output(options.output, run.output_options(all ? run.input_bytes() : 0));
  if (!output) return std::unexpected(output.error());
  auto items = merge.go({.file = &*output});
  if (!items) return std::unexpected(items.error());

  if (auto status = output->publish(); !status) return std::unexpected(status.error());

  MergeFilesStats stats;
  static_cast<FilesStats&>(stats) = run.stats();
  stats.planned = merge.planned();
  stats.items = *items;
  stats.bytes = run.output_bytes();
  stats.passes = stats.planned.passes;
  return stats;
}

uint32_t stretches_max(const record::Format& format, uint64_t memory_bytes) {
  const FilesOptions none;
  return FileRun(none, "merge").streams_max(format, memory_bytes) - 1;
}

uint64_t stretch_item_bytes_max(const record::Format& format, size_t stretches,
                                uint64_t memory_bytes) {
  return item_bytes_max_of_pass(format, static_cast<uint32_t>(stretches) + 1, memory_bytes);
}

Result<Stored> merge_stretches(Context& context, const std::vector<Piece>& stretches,
                               uint64_t memory_bytes, const Target& target) {
  const SortOptions& options = context.options;
  MergeFilesOptions merging = options_of(options);
  // What was found to be in order is not searched for disorder.
  merging.files.inputs.clear();
  // The merge is a phase of the sort, and goes on counting where that was.
  if (options.progress)
    merging.files.progress = [&context](const Progress&) { (void)context.pulse(); };
  FileRun run(merging.files, "sort");
  std::vector<bowtie::Input> inputs;
  Stored stored;
  for (const Piece& stretch : stretches) {
    inputs.push_back({.file = stretch.file, .offset = stretch.offset, .bytes = stretch.bytes});
    stored.bytes += stretch.bytes + 1;
  }
  run.start_with(std::move(inputs));
  const record::Format& format = options.format;
  const bowtie::MergeOptions how{.descending = options.descending,
                                 .unique = options.unique,
                                 .items_max = options.top.value_or(~uint64_t{0}),
                                 .items = &stored.items};
  auto status = run.pass(
      run.inputs(), {{.file = target.file, .offset = target.offset, .bytes_max = stored.bytes}},
      bowtie::merge(format, how),
      {.format = format, .memory_bytes = memory_bytes, .phase = "merge"});
  if (!status) return std::unexpected(status.error());
  stored.bytes = run.output_bytes();
  context.occupancy().add(run.stats().staircases);
  return stored;
}

Result<SortPlan> plan_merge_only(const SortOptions& given) {
  if (auto status = refuse_pool(given); !status) return std::unexpected(status.error());
  const SortOptions options = with_device(given);
  auto planned = plan_merge(options_of(options));
  if (!planned) return std::unexpected(planned.error());
  return sort_plan_of(*planned, options);
}

Result<SortStats> sort_merge_only(const SortOptions& given) {
  if (auto status = refuse_pool(given); !status) return std::unexpected(status.error());
  const SortOptions options = with_device(given);
  Context context(options);
  context.set_step("merge");
  MergeFilesOptions merging = options_of(options);
  // The executor tells of every action; a reader wants ten lines a second.
  std::atomic<int64_t> next_report_ns = 0;
  if (options.progress) {
    merging.files.progress = [&](const Progress& progress) {
      const int64_t now =
          std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
      int64_t due = next_report_ns.load(std::memory_order_relaxed);
      // Relaxed: only one of those who come at once tells, and nothing is handed over with it.
      if (now < due || !next_report_ns.compare_exchange_strong(due, now + report_every_ns,
                                                               std::memory_order_relaxed))
        return;
      options.progress(progress);
    };
  }
  auto done = merge_files(merging);
  if (!done) return std::unexpected(done.error());

  SortStats stats;
  stats.predicted = sort_plan_of(done->planned, options);
  stats.method = stats.predicted.method;
  stats.items = done->items;
  stats.bytes = done->bytes;
  stats.seconds = done->seconds;
  stats.peak_rss_bytes = done->peak_rss_bytes;
  stats.budget_bytes = done->budget_bytes;
  stats.passes = done->passes;
  stats.bytes_read = done->bytes_read;
  stats.bytes_written = done->bytes_written;
  stats.temp_bytes = done->temp_bytes;
  stats.temp_memory_bytes = done->temp_memory_bytes;
  stats.occupancy.staircases = std::move(done->staircases);
  stats.phases = context.phases();
  std::erase_if(stats.phases, [](const SortPhase& phase) { return phase.name != "merge"; });
  for (const SortPhase& phase : stats.phases) {
    stats.seeks += phase.seeks;
    stats.phase_seconds.emplace_back(phase.name, phase.seconds);
  }
  // The executor chooses both by itself.
  stats.pool = pool::name_of(
      sort_mechanism(options, done->block_bytes != 0 ? done->block_bytes : size_t{2 * MiB}));
  stats.engine = engine_name({});
  stats.emulated = done->emulated;
  return stats;
}

}  // namespace penstock::external
