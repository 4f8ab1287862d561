// Several passes: a plan carried out bowtie by bowtie.
//
// A pass has `files_in` files and turns them into `files_out`, by `bowties` bowties of its fan-in
// and fan-out. Which file goes into which bowtie is a matter of dividing evenly: file k of F goes
// to bowtie k B / F. Merges make a file of neighbours, so that the order of the inputs is kept (a
// stable merge stays stable); distributions make files of neighbouring final outputs.
//
//   merges        n files of one stretch each  ->  i files
//   the bowtie    i files  ->  j files, each for a range of the final outputs
//   distributions each file, for a range, becomes files for parts of the range
//
// Only files between two passes are ours: temporaries without names, taken from the directories in
// turns. The files that a bowtie has read are closed when it has ended, which gives their space
// back while the pass still goes on; so the most that lies on the disks is one pass's data and what
// one bowtie writes. The first pass reads the user's inputs, the last one writes the user's
// outputs.

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "bowtie/run.h"
#include "os/limits.h"

namespace penstock::bowtie {
namespace {

// One file of data between two passes, or one of the user's.
struct Data {
  Input input;                            // what it is read from
  std::unique_ptr<file::File> temporary;  // ours, if it is
  OutputRange range;
};

// How many of `all` things come before part `part` of `parts`, evenly.
uint64_t before(uint64_t all, uint64_t parts, uint64_t part) {
  return all * part / parts;
}

void add(std::vector<Staircases>& sums, Staircases one) {
  auto same = std::ranges::find_if(sums, [&](const Staircases& sum) {
    return sum.inputs == one.inputs && sum.outputs == one.outputs;
  });
  if (same == sums.end()) {
    if (sums.size() < staircases_max) sums.push_back(std::move(one));
    return;
  }
  same->schedule = one.schedule;
  same->input.add(one.input);
  same->output.add(one.output);
}

void add(RunResult& sum, RunResult one) {
  sum.bytes_read += one.bytes_read;
  sum.bytes_written += one.bytes_written;
  sum.read_switches += one.read_switches;
  sum.write_switches += one.write_switches;
  sum.actions += one.actions;
  const bool first = sum.run_bytes_max == 0;
  sum.run_bytes_min = first ? one.run_bytes_min : std::min(sum.run_bytes_min, one.run_bytes_min);
  sum.run_bytes_max = std::max(sum.run_bytes_max, one.run_bytes_max);
  sum.seconds += one.seconds;
  sum.seconds_reading += one.seconds_reading;
  sum.seconds_writing += one.seconds_writing;
  sum.seconds_overlapped += one.seconds_overlapped;
  sum.seconds_computing_alone += one.seconds_computing_alone;
  sum.blocks_peak = std::max(sum.blocks_peak, one.blocks_peak);
  sum.block_bytes = std::max(sum.block_bytes, one.block_bytes);
  sum.schedule = one.schedule;
  sum.emulated = std::move(one.emulated);
  for (Staircases& stairs : one.staircases) add(sum.staircases, std::move(stairs));
  if (const uint64_t switches = sum.switches(); switches > 0) {
    sum.run_bytes =
        static_cast<double>(sum.bytes_read + sum.bytes_written) / static_cast<double>(switches);
  }
  if (!one.prediction) return;
  if (!sum.prediction) {
    sum.prediction = one.prediction;
    return;
  }
  Prediction& prediction = *sum.prediction;
  prediction.traffic.read_bytes += one.prediction->traffic.read_bytes;
  prediction.traffic.written_bytes += one.prediction->traffic.written_bytes;
  prediction.traffic.switches += one.prediction->traffic.switches;
  prediction.seconds += one.prediction->seconds;
  prediction.throughput_bytes_per_s =
      (prediction.traffic.read_bytes + prediction.traffic.written_bytes) / prediction.seconds;
  prediction.cache_may_hide_switches |= one.prediction->cache_may_hide_switches;
  prediction.too_short_for_steady_state |= one.prediction->too_short_for_steady_state;
  prediction.run_below_block |= one.prediction->run_below_block;
}

class PlanRun {
 public:
  PlanRun(const Plan& plan, std::vector<Output> outputs, const SteppedComputation& computation,
          const PlanRunOptions& options)
      : plan_(plan), outputs_(std::move(outputs)), computation_(computation), options_(options) {}

  Result<RunResult> run(std::vector<Input> inputs) {
    const auto all = static_cast<uint32_t>(outputs_.size());
    for (Input& input : inputs) data_.push_back({std::move(input), nullptr, {0, all}});
    if (data_.size() > few_files || all > few_files) (void)os::raise_open_files_limit();
    for (size_t pass = 0; pass < plan_.passes.size(); ++pass) {
      const bool last = pass + 1 == plan_.passes.size();
      if (auto status = run_pass(plan_.passes[pass], last); !status)
        return std::unexpected(status.error());
    }
    return std::move(result_);
  }

 private:
  // Each has two descriptors.
  static constexpr size_t few_files = 128;

  // The bowties of a pass, one after the other.
  Status run_pass(const Pass& pass, bool last) {
    const bool distributes = pass.kind == Pass::Kind::distribute;
    // A distribution has a bowtie for each file; other bowties share the files out.
    const uint64_t bowties = distributes ? data_.size() : pass.bowties;
    std::vector<Data> made;
    for (uint64_t b = 0; b < bowties; ++b) {
      const uint64_t from = before(data_.size(), bowties, b);
      const uint64_t to = before(data_.size(), bowties, b + 1);
      if (from == to) continue;
      const std::span<Data> ours(data_.data() + from, to - from);
      const std::vector<OutputRange> ranges = ranges_of(pass, ours[0].range, last);
      if (auto status = run_bowtie(pass, last, ours, ranges, made); !status) return status;
      for (Data& used : ours) used.temporary.reset();
    }
    data_ = std::move(made);
    return {};
  }

  // The parts of a range that the outputs of a bowtie stand for: none is empty. The last pass ends
  // with single ones, whatever rounding has left of the fan-out.
  std::vector<OutputRange> ranges_of(const Pass& pass, OutputRange range, bool last) const {
    std::vector<OutputRange> ranges;
    if (pass.kind == Pass::Kind::merge) return {range};
    const uint32_t finals = range.last - range.first;
    const uint32_t parts = last ? finals : std::clamp(pass.fan_out, 1u, finals);
    for (uint32_t j = 0; j < parts; ++j) {
      ranges.push_back({range.first + static_cast<uint32_t>(before(finals, parts, j)),
                        range.first + static_cast<uint32_t>(before(finals, parts, j + 1))});
    }
    return ranges;
  }

  Status run_bowtie(const Pass& pass, bool last, std::span<Data> from,
                    const std::vector<OutputRange>& ranges, std::vector<Data>& made) {
    std::vector<Input> inputs;
    for (const Data& data : from) inputs.push_back(data.input);
    std::vector<Output> outputs;
    std::vector<Data> next;
    for (const OutputRange& range : ranges) {
      if (last) {
        if (range.last - range.first != 1) {
          return failure(ErrorCode::invalid_argument, "end a plan with one file for each output",
                         plan_.factors(), "a plan for these outputs");
        }
        outputs.push_back(std::move(outputs_[range.first]));
        continue;
      }
      auto file = temporary();
      if (!file) return std::unexpected(file.error());
      Data& data = next.emplace_back();
      data.temporary = std::make_unique<file::File>(std::move(*file));
      data.range = range;
      outputs.push_back({.file = data.temporary.get()});
    }
    RunOptions run_options = options_.run;
    run_options.scheduler = nullptr;
    run_options.schedule.reset();
    // The last bowtie of a pass may have fewer streams than the others.
    const Bowtie& planned = pass.schedule.bowtie;
    if (planned.inputs == inputs.size() && planned.outputs == outputs.size())
      run_options.schedule = pass.schedule;
    if (run_options.block_bytes != 0) run_options = beside_in_order(inputs, std::move(run_options));
    auto one = bowtie::run(
        std::move(inputs), std::move(outputs),
        [&](Streams& streams) { return computation_(streams, ranges, pass.kind); }, run_options);
    if (!one) return std::unexpected(one.error());
    for (size_t j = 0; j < next.size(); ++j) {
      next[j].input = {.file = next[j].temporary.get(), .bytes = one->output_bytes[j]};
      made.push_back(std::move(next[j]));
    }
    if (last) {
      for (uint64_t written : one->output_bytes) result_.output_bytes.push_back(written);
    }
    add(result_, std::move(*one));
    return {};
  }

  Result<file::File> temporary() {
    const auto& directories = options_.temporary_directories;
    if (directories.empty()) {
      return failure(ErrorCode::invalid_argument, "keep the data between two passes",
                     plan_.factors(), "a directory for temporaries");
    }
    auto file = file::File::create_temporary(directories[next_directory_++ % directories.size()],
                                             options_.run.caching);
    if (file) {
      file->keep_checks();
      return file;
    }
    Error error = file.error();
    if (error.system_errno == EMFILE)
      error.hint = "a plan with fewer files between its passes, or a higher limit (ulimit -n)";
    return std::unexpected(std::move(error));
  }

  const Plan& plan_;
  std::vector<Output> outputs_;
  const SteppedComputation& computation_;
  const PlanRunOptions& options_;
  std::vector<Data> data_;  // what the next pass reads
  size_t next_directory_ = 0;
  RunResult result_;
};

}  // namespace

Result<RunResult> run_plan(const Plan& plan, std::vector<Input> inputs, std::vector<Output> outputs,
                           const SteppedComputation& computation, const PlanRunOptions& options) {
  if (plan.passes.empty() || inputs.empty() || outputs.empty())
    return failure(ErrorCode::invalid_argument, "carry out a plan without passes or files", "plan");
  uint64_t made = 1;
  for (const Pass& pass : plan.passes) made = pass.files_out;
  if (plan.passes.front().files_in != inputs.size() || made != outputs.size()) {
    return failure(
        ErrorCode::invalid_argument,
        fmt::format("carry out a plan from {} files to {}", plan.passes.front().files_in, made),
        fmt::format("{} inputs and {} outputs", inputs.size(), outputs.size()));
  }
  return PlanRun(plan, std::move(outputs), computation, options).run(std::move(inputs));
}

}  // namespace penstock::bowtie
