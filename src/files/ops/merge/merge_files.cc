#include "files/ops/merge/merge_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "files/bowtie/computations.h"
#include "files/bowtie/planner.h"
#include "files/run/file_run.h"
#include "files/run/odd_items.h"
#include "files/run/space.h"
#include "io/temporaries.h"

namespace penstock::files {
namespace {

// Adds the file and the item to an error of order: the executor knows at most the file, and only in
// a single pass, so the inputs are read again.
Error with_item(Error error, const MergeFilesOptions& options, bool single_pass) {
  if (error.code != ErrorCode::unsorted) return error;
  error.hint = "penstock sort";
  std::vector<std::string> again;  // inputs that can be read again
  for (size_t i = 0; i < options.inputs.size(); ++i) {
    if (single_pass && options.inputs[i] != error.subject) continue;
    if (is_named_file(options, i)) again.push_back(options.inputs[i]);
  }
  if (again.empty()) return error;
  MergeFilesOptions look = options;
  look.inputs = std::move(again);
  look.sources.clear();
  look.unique = false;
  auto found = find_disorder(look);
  if (!found || !*found) return error;
  return fault_at(error.code, (*found)->place.text(options.format),
                  fmt::format("not in order ({})", (*found)->text), (*found)->path, error.hint)
      .error();
}

// The merge of a run that has started.
class Merge {
 public:
  Merge(const MergeFilesOptions& options, FileRun& run) : options_(options), run_(run) {}

  // Plans the merge. Fails if the disks have no room for it.
  Status plan();
  const MergeFilesPlan& planned() const { return planned_; }
  // Merges, and returns the number of items of the output.
  Result<uint64_t> go(const bowtie::Output& output);

 private:
  Status choose();
  // The memory for blocks and decoders.
  uint64_t memory_bytes() const {
    return run_.usable_bytes() - bowtie::merge_memory_bytes(run_.format());
  }

  const MergeFilesOptions& options_;
  FileRun& run_;
  MergeFilesPlan planned_;
  bowtie::Plan plan_;
  uint64_t decoding_bytes_ = 0;  // memory of decoders that work at the same time
};

Status Merge::plan() {
  if (auto status = choose(); !status) return status;
  planned_.device = run_.device().name;
  planned_.device_is_assumed = options_.device == nullptr;
  if (planned_.input_bytes == 0) return {};
  if (options_.top) {
    // How much has to be read for the first items is not known before.
    planned_.seconds = 0;
    planned_.bytes_read = planned_.bytes_written = planned_.seeks = 0;
    return {};
  }
  return check_space({.output = options_.output,
                      .output_bytes = planned_.input_bytes,
                      .temp_directories = run_.temp_directories(),
                      .temp_bytes = planned_.temp_bytes,
                      .memory_bytes = options_.memory_bytes});
}

// The peak of a plan's temporaries: each pass reads what the previous one wrote, which is deleted
// when the pass ends.
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
  // A plan knows streams of one size: either without decoders, if there is room for all of them, or
  // each with the largest decoder.
  const uint64_t all_bytes = bowtie::decoding_bytes(run_.inputs(), planned_.files);
  const uint64_t all_streams_bytes = (planned_.files + 1) * run_.planned_stream_bytes();
  uint64_t stream_bytes = run_.planned_stream_bytes() + bowtie::decoding_bytes(run_.inputs(), 1);
  const uint64_t needed_bytes = std::min(all_bytes + all_streams_bytes, 3 * stream_bytes);
  if (auto fits = run_.check_usable(bowtie::merge_memory_bytes(run_.format()) + needed_bytes);
      !fits)
    return fits;
  uint64_t planned_bytes = memory_bytes();
  if (all_bytes + all_streams_bytes <= planned_bytes) {
    planned_bytes -= all_bytes;
    stream_bytes = run_.planned_stream_bytes();
  }
  decoding_bytes_ = all_bytes;
  if (planned_.files == 1) {
    // A single file is only copied, and its order checked.
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
                                   .memory_bytes = planned_bytes,
                                   .device = &run_.device(),
                                   .stream_bytes_min = stream_bytes},
                                  bowtie::Search::coarse);
  if (!plan) return std::unexpected(plan.error());
  plan_ = std::move(*plan);
  decoding_bytes_ = bowtie::decoding_bytes(run_.inputs(), plan_.passes.front().fan_in);
  planned_.factors = plan_.factors();
  planned_.passes = static_cast<uint32_t>(plan_.passes.size());
  if (!known) return {};
  planned_.seconds = plan_.seconds;
  planned_.seeks = static_cast<uint64_t>(plan_.switches);
  for (const bowtie::Pass& pass : plan_.passes) {
    planned_.bytes_read += static_cast<uint64_t>(pass.read_bytes);
    planned_.bytes_written += static_cast<uint64_t>(pass.written_bytes);
  }
  planned_.temp_bytes = temp_bytes_of(plan_);
  return {};
}

Result<uint64_t> Merge::go(const bowtie::Output& output) {
  uint64_t items = 0;
  const items::Format& format = run_.format();
  std::optional<uint64_t> first_input = 0;  // the first of a merge; nullopt: temporaries
  bowtie::MergeOptions merging{.descending = options_.descending,
                               .unique = options_.unique,
                               .items_max = options_.top.value_or(~uint64_t{0}),
                               .items = &items};
  if (OddItems* const odd_items = options_.odd_items.get(); odd_items != nullptr) {
    merging.odd = [&, odd_items](uint32_t input, uint64_t number, std::string_view item) {
      if (first_input)
        odd_items->note(run_.inputs()[*first_input + input].name, format.header_lines + number,
                        format, item);
    };
  }
  const FileRun::PassOptions pass{.items = format,
                                  .memory_bytes = memory_bytes() - decoding_bytes_,
                                  .phase = "merge",
                                  .total_bytes = planned_.bytes_read + planned_.bytes_written,
                                  .merge_begins = [&](auto first) { first_input = first; }};
  if (planned_.passes == 0) return items;
  const bowtie::Computation merge = bowtie::merge(format, merging);
  const Status merged = planned_.passes == 1 ? run_.pass(run_.inputs(), {output}, merge, pass)
                                             : run_.plan(plan_, run_.inputs(), output, merge, pass);
  if (!merged) return std::unexpected(with_item(merged.error(), options_, planned_.passes == 1));
  if (auto status = run_.interrupted(); !status) return std::unexpected(status.error());
  return items;
}

}  // namespace

Result<MergeFilesPlan> plan_merge(const MergeFilesOptions& options) {
  FileRun run(options, "merge");
  if (auto status = run.start({.inputs_at_once = 0}); !status)
    return std::unexpected(status.error());
  Merge merge(options, run);
  if (auto status = merge.plan(); !status) return std::unexpected(status.error());
  return merge.planned();
}

Result<MergeFilesStats> merge_files(const MergeFilesOptions& options) {
  FileRun run(options, "merge");
  if (auto status = run.start({.inputs_at_once = 0}); !status)
    return std::unexpected(status.error());
  Merge merge(options, run);
  if (auto status = merge.plan(); !status) return std::unexpected(status.error());
  const bool all = !options.unique && !options.top && run.input_bytes() != bowtie::unknown_bytes;
  auto output = run.open_output(all ? run.input_bytes() : 0);
  if (!output) return std::unexpected(output.error());
  if (auto status = run.write_header(*output); !status) return std::unexpected(status.error());
  const uint64_t header_bytes = run.header().size();
  auto items =
      merge.go({.file = &*output, .offset = output->seekable() ? header_bytes : uint64_t{0}});
  if (!items) return std::unexpected(items.error());

  if (auto status = output->publish(); !status) return std::unexpected(status.error());

  MergeFilesStats stats;
  static_cast<RunStats&>(stats) = run.stats();
  stats.block_bytes = run.block_bytes();
  stats.planned = merge.planned();
  stats.items = *items;
  stats.bytes = header_bytes + run.output_bytes();
  stats.passes = stats.planned.passes;
  return stats;
}

}  // namespace penstock::files
