// Several passes: a plan of merges carried out merge by merge.
//
// A pass has `files_in` files and turns them into as many as it has merges. Files are divided
// evenly among merges: file k of F goes to merge k B / F. Files are merged with their neighbours,
// so that the order of the inputs is kept (a stable merge stays stable).
//
// Only files between two passes are temporaries. The files of a merge are closed when it has ended,
// which frees their space while the pass still goes on; so the most that lies on the disk is one
// pass's data and the output of one merge. The first pass reads the user's inputs, the last one
// writes the user's output.

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <span>

#include "files/bowtie/run.h"
#include "os/limits.h"

namespace penstock::bowtie {
namespace {

// A file between two passes, or one of the user's inputs.
struct Data {
  Input input;                          // the file as an input of the next pass
  std::unique_ptr<io::File> temporary;  // null for a user's input
};

// The number of items before part `part` if `all` items are divided evenly into `parts`.
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

class PlanRun {
 public:
  PlanRun(const Plan& plan, Output output, const Computation& computation,
          const PlanRunOptions& options)
      : plan_(plan), output_(std::move(output)), computation_(computation), options_(options) {}

  Result<PlanRunResult> run(std::vector<Input> inputs) {
    for (Input& input : inputs) data_.push_back({std::move(input), nullptr});
    if (data_.size() > few_files) (void)os::raise_open_files_limit();
    for (const Pass& pass : plan_.passes) {
      if (auto status = run_pass(pass); !status) return std::unexpected(status.error());
    }
    return std::move(result_);
  }

 private:
  // Each has two descriptors.
  static constexpr size_t few_files = 128;

  // Runs the merges of a pass, one after the other.
  Status run_pass(const Pass& pass) {
    std::vector<Data> made;
    for (uint64_t b = 0; b < pass.files_out; ++b) {
      const uint64_t from = before(data_.size(), pass.files_out, b);
      const uint64_t to = before(data_.size(), pass.files_out, b + 1);
      const std::span<Data> ours(data_.data() + from, to - from);
      const bool is_first = &pass == &plan_.passes.front();
      if (options_.begins) options_.begins(is_first ? std::optional(from) : std::nullopt);
      if (auto status = run_merge(pass, ours, made); !status) return status;
      for (Data& used : ours) used.temporary.reset();
    }
    data_ = std::move(made);
    return {};
  }

  Status run_merge(const Pass& pass, std::span<Data> from, std::vector<Data>& made) {
    std::vector<Input> inputs;
    for (const Data& data : from) inputs.push_back(data.input);
    Output output = output_;
    std::unique_ptr<io::File> between;
    if (&pass != &plan_.passes.back()) {
      auto file = options_.temporary();
      if (!file) return std::unexpected(file.error());
      between = std::move(*file);
      output = {.file = between.get()};
    }
    RunOptions run_options = options_.run;
    run_options.scheduler = nullptr;
    run_options.schedule.reset();
    // The last merge of a pass may have fewer streams than the others.
    const Bowtie& planned = pass.schedule.bowtie;
    if (planned.inputs == inputs.size() && planned.outputs == 1)
      run_options.schedule = pass.schedule;
    if (run_options.block_bytes != 0) run_options = beside_in_order(inputs, std::move(run_options));
    auto one = bowtie::run(std::move(inputs), {std::move(output)}, computation_, run_options);
    if (!one) return std::unexpected(one.error());
    const uint64_t bytes = one->output_bytes[0];
    (between != nullptr ? result_.temporary_bytes : result_.output_bytes) += bytes;
    for (Staircases& stairs : one->staircases) add(result_.staircases, std::move(stairs));
    made.push_back({{.file = between.get(), .bytes = bytes}, std::move(between)});
    return {};
  }

  const Plan& plan_;
  const Output output_;
  const Computation& computation_;
  const PlanRunOptions& options_;
  std::vector<Data> data_;  // the next pass's inputs
  PlanRunResult result_;
};

}  // namespace

Result<PlanRunResult> run_plan(const Plan& plan, std::vector<Input> inputs, Output output,
                               const Computation& computation, const PlanRunOptions& options) {
  if (plan.passes.empty() || plan.passes.front().files_in != inputs.size() ||
      plan.passes.back().files_out != 1) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("merge {} files by this plan", inputs.size()), plan.factors(),
                   "a plan for these files and one output");
  }
  return PlanRun(plan, std::move(output), computation, options).run(std::move(inputs));
}

}  // namespace penstock::bowtie
