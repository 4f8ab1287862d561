#include "files/sort/ways/merge_only.h"

#include <fmt/format.h>

#include "files/run/file_io.h"
#include "files/sort/context.h"
#include "files/sort/plan/sort_prediction.h"
#include "io/temporaries.h"

namespace penstock::external {
namespace {

// Plans the merge with the measured disk profile, if there is one.
files::MergeFilesOptions merge_options(const SortOptions& given) {
  files::MergeFilesOptions options{given, given.unique, given.top};
  if (auto device = known_device(given))
    options.device = std::make_shared<const bowtie::DeviceProfile>(std::move(*device));
  return options;
}

SortPlan sort_plan_of(const MergeFilesPlan& planned, const files::FilesOptions& options) {
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
  plan.temp_memory_bytes = io::temporaries_in_memory(
      io::temp_directories_or_default(options.temp_directories, options.output),
      planned.temp_bytes);
  plan.seeks = planned.seeks;
  if (options.device != nullptr) {
    plan.device = *options.device;
    plan.seconds = planned.seconds;
  }
  // Sequential inputs and the first items alone have no prediction.
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

Result<SortPlan> plan_merge_only(const SortOptions& given) {
  if (auto status = refuse_pool(given); !status) return std::unexpected(status.error());
  const auto options = merge_options(given);
  auto planned = files::plan_merge(options);
  if (!planned) return std::unexpected(planned.error());
  return sort_plan_of(*planned, options);
}

Result<SortStats> sort_merge_only(const SortOptions& given) {
  if (auto status = refuse_pool(given); !status) return std::unexpected(status.error());
  const auto options = merge_options(given);
  Context context(given);
  context.set_step("merge");
  auto done = files::merge_files(options);
  if (!done) return std::unexpected(done.error());

  SortStats stats{*done};
  stats.predicted = sort_plan_of(done->planned, options);
  stats.method = stats.predicted.method;
  stats.items = done->items;
  stats.bytes = done->bytes;
  stats.phases = context.phases();
  std::erase_if(stats.phases, [](const SortPhase& phase) { return phase.name != "merge"; });
  for (const SortPhase& phase : stats.phases)
    stats.phase_seconds.emplace_back(phase.name, phase.seconds);
  // The executor chooses both by itself.
  stats.pool = pool::name_of(
      files::mechanism_of(options, done->block_bytes != 0 ? done->block_bytes : size_t{2 * MiB}));
  stats.engine = files::engine_name();
  return stats;
}

}  // namespace penstock::external
