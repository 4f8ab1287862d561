#include "external/merge_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "bowtie/computations.h"
#include "bowtie/planner.h"

namespace penstock::external {
namespace {

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
                              .cancel = options.files.cancel});
  if (!found || !*found) return error;
  error.subject = (*found)->path;
  error.attempted =
      fmt::format("merge: item {} is not in order ({})", (*found)->item + 1, (*found)->text);
  return error;
}

}  // namespace

Result<MergeFilesStats> merge_files(const MergeFilesOptions& options) {
  const FilesOptions& files = options.files;
  FileRun run(files, "merge");
  if (auto status = run.start(); !status) return std::unexpected(status.error());
  auto output = file::File::create_output(options.output);
  if (!output) return std::unexpected(output.error());

  MergeFilesStats stats;
  stats.files = static_cast<uint32_t>(run.inputs().size());
  const bowtie::MergeOptions merging{.descending = options.descending, .unique = options.unique};
  FileRun::PassOptions pass{
      .format = files.format, .memory_bytes = run.usable_bytes(), .phase = "merge"};
  auto outputs = [&] { return std::vector<bowtie::Output>{{.file = &*output}}; };
  const uint64_t stream_bytes = 2 * stream_bytes_min(files.format);
  Status merged;
  if (stats.files > 1) {
    const bool known = run.input_bytes() != bowtie::unknown_bytes;
    auto plan = bowtie::plan_bowtie({.inputs = stats.files,
                                     .outputs = 1,
                                     .bytes = static_cast<double>(known ? run.input_bytes() : TiB),
                                     .memory_bytes = run.usable_bytes(),
                                     .device = &run.device(),
                                     .stream_bytes_min = stream_bytes},
                                    bowtie::Search::coarse);
    if (!plan) return std::unexpected(plan.error());
    stats.factors = plan->factors();
    stats.predicted_s = known ? plan->seconds : 0;
    stats.passes = static_cast<uint32_t>(plan->passes.size());
    if (known) pass.total_bytes = static_cast<uint64_t>(plan->moved_bytes);
    if (stats.passes == 1) {
      merged = run.pass(run.inputs(), outputs(), bowtie::merge(files.format, merging), pass);
    } else {
      merged = run.plan(*plan, run.inputs(), outputs(),
                        bowtie::stepped_merge(files.format, merging), pass);
    }
  } else if (stats.files == 1) {
    stats.passes = 1;
    stats.factors = "1";
    merged = run.pass(run.inputs(), outputs(), bowtie::merge(files.format, merging), pass);
  }
  if (!merged) return std::unexpected(with_item(merged.error(), options, stats.passes == 1));
  if (auto status = run.interrupted(); !status) return std::unexpected(status.error());
  if (output->seekable()) {
    auto size = output->size();
    if (!size) return std::unexpected(size.error());
    stats.bytes = *size;
  }
  if (auto status = output->publish(); !status) return std::unexpected(status.error());
  const uint32_t passes = stats.passes;
  static_cast<FilesStats&>(stats) = run.stats();
  stats.passes = passes;
  return stats;
}

}  // namespace penstock::external
