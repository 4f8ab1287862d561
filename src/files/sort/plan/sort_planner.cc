#include "files/sort/plan/sort_planner.h"

#include <algorithm>
#include <cmath>

#include "base/amounts.h"
#include "base/bits.h"
#include "files/run/space.h"
#include "files/sort/bucket/bucket_reader.h"
#include "files/sort/plan/bucket_plan.h"
#include "files/sort/plan/cost_model.h"
#include "files/sort/plan/sort_prediction.h"
#include "files/sort/spill/spill.h"
#include "files/sort/spill/spill_codec.h"
#include "files/sort/ways/sorted_stretches.h"
#include "files/sort/ways/top_items.h"
#include "io/file.h"
#include "io/temporaries.h"
#include "items/keys/codec.h"
#include "os/limits.h"

namespace penstock::external {
namespace {

// Assumed length of an input of unknown length, in memories.
constexpr uint64_t pipe_memory_multiple = 8;
// Least factor by which the executor's distribution must be faster than the usual one by the model,
// which does not know the executor's higher price per item.
constexpr double long_runs_gain_min = 1.25;
// Largest share of the input for which the first K items are filtered before they are sorted: with
// more, the filter saves less than it costs. `top_margin`: factor on the kept share.
constexpr double top_share_max = 0.5;
constexpr double top_margin = 1.05;
// Least number of keys in a sample whose descents mean anything.
constexpr size_t sample_size_min = 1024;
// Least size of a sorted input that is copied even if it fits in memory.
constexpr uint64_t copied_bytes_min = 256 * MiB;
// Range of the measured time over the predicted time of most runs, if memory behaves as measured.
constexpr double spread_low = 0.85;
constexpr double spread_high = 1.2;
// Least factor by which compression must be faster by the model, which errs.
constexpr double compression_gain_min = 1.05;

// The input of a distribution. The output is not open yet: its options say whether it is written in
// order (in_order() in bucket.h).
BucketInput distributed(const SortOptions& options, const SortInput& input, uint64_t bytes) {
  return {.bytes = bytes,
          .known = input.known,
          .item_bytes = input.sample.item_bytes,
          .in_order = options.unique || !io::names_a_file(options.output)};
}

class Planner {
 public:
  // `usable_bytes`: the memory to plan for; it may differ from the input's own budget.
  Planner(Context& context, Costs& costs, const SortInput& input, const SortOptions& options,
          uint64_t usable_bytes)
      : context_(context),
        options_(options),
        input_(input),
        usable_bytes_(usable_bytes),
        costs_(costs) {
    plan_phase(
        {.name = "sample", .bytes_read = input_.sample.bytes_read, .seeks = input_.sample.places},
        {}, 1, 0);
  }

  SortDecision decide_all();
  // Decides without trials, for a budget that is not this sort's.
  SortPlan decide_tentatively();

 private:
  void plan_phase(SortPhase phase, PhaseWork work = {}, uint32_t inputs = 1, uint32_t outputs = 1);
  void plan_step(Step step) {
    plan_phase(std::move(step.phase), step.work, step.inputs, step.outputs);
  }
  void sum_up_plan();
  void look_for_alternatives();
  bool fits() const;
  void decide();
  void decide_copy();
  void decide_merge();
  bool first_items_fit() const;
  bool decide_top();
  void plan_in_memory();
  bool takes_turns() const;
  bool writes_in_order() const { return distributed(options_, input_, 0).in_order; }
  uint32_t writers(const BucketPlan& plan) const;
  void decide_output();
  void decide_distribution(uint64_t bytes);
  void look_for_fewer_passes();
  void decide_compression(std::vector<Step>& splits, Step& sorted, uint64_t spilled,
                          const BucketPlan& plan);

  Context& context_;
  const SortOptions& options_;
  const SortInput& input_;
  const uint64_t usable_bytes_;
  Costs& costs_;
  bool tries_ = true;  // whether compression may be tried on the input
  SortDecision decision_;
  SortPlan& plan_ = decision_.plan;
  std::vector<Step> steps_;  // steps that become the plan's phases
};

SortDecision Planner::decide_all() {
  costs_.look(first_items_fit(), input_.sample.descents == 0 && !fits());
  plan_.device = costs_.device();
  decide();
  look_for_fewer_passes();
  look_for_alternatives();
  decide_output();
  if (!input_.known) steps_.clear();
  if (!plan_.device && !steps_.empty() && plan_.method != Method::empty) {
    costs_.assume_disk();
    plan_.device = costs_.device();
    plan_.device_is_assumed = true;
  }
  sum_up_plan();
  return std::move(decision_);
}

SortPlan Planner::decide_tentatively() {
  tries_ = false;
  plan_.device = costs_.device();
  decide();
  sum_up_plan();
  return std::move(plan_);
}

// Plans the sort with a quarter and a half of the memory, and with more until the input fits. The
// compression ratio is taken to be the same with other block sizes.
void Planner::look_for_alternatives() {
  const bool differs = plan_.method == Method::distribute || plan_.method == Method::in_memory;
  if (!differs || !plan_.device || !input_.known || options_.top) return;
  const auto machine_bytes = static_cast<double>(os::machine_memory().memory_bytes);
  for (const double times : {0.25, 0.5, 2.0, 4.0, 16.0}) {
    const double memory = times * static_cast<double>(options_.memory_bytes);
    const bool is_more = times > 1;
    if (is_more && (plan_.method == Method::in_memory || memory > machine_bytes)) continue;
    SortOptions options = options_;
    options.memory_bytes = round_down(static_cast<uint64_t>(memory), MiB);
    const uint64_t taken_bytes = options_.memory_bytes - usable_bytes_;
    if (options.memory_bytes < minimum_memory_bytes(options_) ||
        options.memory_bytes < taken_bytes + files::usable_bytes_min)
      continue;
    const uint64_t usable_bytes = options.memory_bytes - taken_bytes;
    const BucketInput all = distributed(options, input_, input_.bytes);
    if (!plan_levels(options, usable_bytes, all).back().holds) continue;
    const SortPlan other =
        Planner(context_, costs_, input_, options, usable_bytes).decide_tentatively();
    plan_.alternatives.push_back({.memory_bytes = options.memory_bytes,
                                  .method = other.method,
                                  .passes = other.passes,
                                  .seconds = other.seconds,
                                  .temp_bytes = other.temp_bytes});
    if (other.method == Method::in_memory && is_more) break;
  }
}

// Adds a phase to the plan. A phase name that repeats is the same phase at a deeper level.
void Planner::plan_phase(SortPhase phase, PhaseWork work, uint32_t inputs, uint32_t outputs) {
  auto same = std::ranges::find_if(
      steps_, [&](const Step& other) { return other.phase.name == phase.name; });
  if (same == steps_.end()) {
    steps_.push_back(
        {.phase = std::move(phase), .work = work, .inputs = inputs, .outputs = outputs});
    return;
  }
  same->phase.bytes_read += phase.bytes_read;
  same->phase.bytes_written += phase.bytes_written;
  same->phase.seeks += phase.seeks;
  same->work.processor_seconds += work.processor_seconds;
  same->work.touched_bytes += work.touched_bytes;
}

bool Planner::fits() const {
  return input_.known &&
         plan_buckets(options_, usable_bytes_, distributed(options_, input_, input_.bytes)).fits;
}

// Turns the steps into the plan's phases. Phases that ran before the decision appear with the time
// that they took, unless the options name a device, which may be another disk than this one.
void Planner::sum_up_plan() {
  if (plan_.device && options_.device == nullptr && !plan_.device_is_assumed) {
    for (SortPhase& done : context_.phases()) {
      std::erase_if(steps_, [&](const Step& step) { return step.phase.name == done.name; });
      plan_.phases.push_back(std::move(done));
    }
  }
  double slow_seconds = 0;
  for (Step& step : steps_) {
    if (plan_.device) {
      slow_seconds += costs_.seconds_at_most(step);
      costs_.predict(step);
    }
    plan_.phases.push_back(std::move(step.phase));
  }
  double done_seconds = 0;
  for (const SortPhase& phase : plan_.phases) {
    plan_.bytes_read += phase.bytes_read;
    plan_.bytes_written += phase.bytes_written;
    plan_.seeks += phase.seeks;
    plan_.seconds += phase.seconds;
    if (phase.bound == PhaseBound::unknown) done_seconds += phase.seconds;
  }
  if (!plan_.device) return;
  plan_.seconds_low = spread_low * plan_.seconds;
  plan_.seconds_high = spread_high * (done_seconds + slow_seconds);
}

void Planner::decide() {
  plan_.input_bytes = input_.known ? input_.bytes : 0;
  plan_.memory_bytes = options_.memory_bytes;
  if (input_.known && input_.bytes == 0) {
    plan_.why = "the input is empty";
    return;
  }
  if (options_.top == 0u) {
    plan_.why = "none of the items is wanted";
    return;
  }
  if (decide_top()) return;
  // A merge has no steps that a resumed run could skip.
  const bool can_tell = !options_.resume && input_.known && !input_.any_in_order() &&
                        input_.sample.size() >= sample_size_min;
  const bool few_stretches = can_tell && input_.sample.descents <= sample_descents_max;
  const bool can_copy = !writes_in_order();
  // A copy uses little memory and, for records and lines, makes no keys.
  const bool all_in_order = few_stretches && can_copy && input_.sample.descents == 0;
  const bool stays = fits();
  if (stays && !(all_in_order && input_.bytes >= copied_bytes_min)) {
    plan_.method = Method::in_memory;
    plan_.why = "the input and the memory for its sort fit in the budget";
    plan_.passes = 1;
    plan_.buckets = 1;
    plan_in_memory();
  } else if (few_stretches) {
    plan_.method = Method::merge;
    decision_.copies = all_in_order;
    decision_.copies ? decide_copy() : decide_merge();
    // If there are more stretches than the sample saw, the input is sorted after all.
    plan_.temp_bytes = stays ? 0 : input_.bytes;
  } else {
    plan_.method = Method::distribute;
    plan_.why = input_.known
                    ? "the input is larger than memory; a sample gives buckets that fit"
                    : "the input is longer than its part that was read; its length is unknown";
    decide_distribution(expected_bytes(options_, input_));
  }
}

void Planner::decide_copy() {
  plan_.why = "a sample found everything in order: the input is copied while that is checked";
  plan_.buckets = 1;
  plan_.passes = 1;
  const uint64_t blocks = input_.bytes / copied_block_bytes(usable_bytes_);
  plan_phase({.name = "copy",
              .bytes_read = input_.bytes,
              .bytes_written = input_.bytes,
              .seeks = input_.pieces.size() + 2 * blocks},
             costs_.look_work());
}

void Planner::decide_merge() {
  plan_.why =
      "a sample found a few sorted stretches: these are searched for, and merged where they lie";
  plan_.buckets = static_cast<uint32_t>(input_.sample.descents) + 1;
  plan_.passes = 2;
  plan_phase({.name = "look for sorted stretches",
              .bytes_read = input_.bytes,
              .seeks = input_.pieces.size()},
             costs_.look_work(), 1, 0);
  const bowtie::Bowtie bowtie{.inputs = plan_.buckets, .outputs = 1, .memory_bytes = usable_bytes_};
  const auto moved = 2 * static_cast<double>(input_.bytes);
  plan_phase({.name = "merge",
              .bytes_read = input_.bytes,
              .bytes_written = input_.bytes,
              .seeks = static_cast<uint64_t>(moved / std::min(moved, best_run_bytes(bowtie))) +
                       plan_.buckets},
             costs_.merge_work(), plan_.buckets, 1);
}

// Whether memory holds the first K items, and these are not all items.
bool Planner::first_items_fit() const {
  if (!options_.top) return false;
  if (input_.known && *options_.top >= input_.bytes / options_.format.record_bytes) return false;
  return top_fits(options_, usable_bytes_, input_.sample.item_bytes, *options_.top);
}

// Returns false if the first K items need no plan of their own: all items are sorted anyway.
bool Planner::decide_top() {
  if (!options_.top) return false;
  const uint64_t count = *options_.top;
  const uint64_t items_max = input_.bytes / options_.format.record_bytes;
  if (input_.known && count >= items_max) return false;
  const auto files = static_cast<uint32_t>(input_.pieces.size());
  const double top_bytes = static_cast<double>(count) * input_.sample.item_bytes;
  if (first_items_fit()) {
    plan_.method = Method::top;
    plan_.why = "the items that are wanted fit in memory, and the others are passed over";
    plan_.passes = 1;
    plan_.buckets = 1;
    const auto written = static_cast<uint64_t>(top_bytes);
    plan_phase({.name = "read", .bytes_read = input_.bytes, .seeks = files}, costs_.look_work(),
               files, 0);
    plan_phase({.name = "write",
                .bytes_written = input_.known ? std::min(written, input_.bytes) : written,
                .seeks = 1},
               {}, 0, 1);
    return true;
  }
  decision_.cuts = true;
  if (fits()) return false;
  const auto bytes = static_cast<double>(expected_bytes(options_, input_));
  // A sample cannot tell how many items are repeats.
  const bool can_tell =
      input_.known && !input_.any_in_order() && !options_.unique && input_.sample.size() > 0;
  if (const double share = top_bytes / bytes; can_tell && share < top_share_max) {
    decision_.kept_share = std::min(
        1.0, top_margin * share + 3 * std::sqrt(share / static_cast<double>(input_.sample.size())));
  }
  plan_.method = Method::distribute;
  if (decision_.kept_share < 1) {
    plan_.why =
        "more items are wanted than memory holds: items that may be among them go to a temporary, "
        "and are sorted from there";
    const auto kept = static_cast<uint64_t>(decision_.kept_share * bytes);
    plan_phase({.name = "keep what may be first",
                .bytes_read = input_.bytes,
                .bytes_written = kept,
                .seeks = files + 2 * kept / (2 * MiB)},
               costs_.look_work());
    decide_distribution(kept);
    ++plan_.passes;
    plan_.temp_bytes += kept;
  } else {
    plan_.why = "so many items are wanted that all are sorted, and the rest is cut off";
    decide_distribution(expected_bytes(options_, input_));
  }
  return true;
}

// Plans an input that fits in memory: its buckets are written as they become sorted, unless the
// output is written in order.
void Planner::plan_in_memory() {
  const auto files = static_cast<uint32_t>(input_.pieces.size());
  const BucketInput input = distributed(options_, input_, input_.bytes);
  const BucketPlan plan = plan_buckets(options_, usable_bytes_, input);
  Step read{.phase = {.name = "read", .bytes_read = input_.bytes, .seeks = files},
            .inputs = files,
            .outputs = 0};
  read.work = costs_.split_work(read.phase, plan);
  plan_step(std::move(read));
  BucketTraffic traffic{
      .output_bytes = input_.bytes, .buckets = 1, .turn_bytes = takes_turns() ? input_.bytes : 0};
  if (options_.format.numeric()) {
    if (!input.in_order) traffic.buckets = plan.buckets;
  } else {
    traffic.request_bytes = plan.output_block_bytes;
    traffic.writers = writers(plan);
    if (traffic.writers > 1) traffic.buckets = plan.buckets;
  }
  Step sorted{.phase = predict_buckets("sort and write", traffic), .inputs = 0};
  sorted.work = costs_.sort_work(sorted.phase, plan);
  plan_step(std::move(sorted));
}

// Whether buckets are read and written in turns. An output that is not a file cannot seek.
bool Planner::takes_turns() const {
  return seeks_slowly(plan_.device) && (decision_.cuts || io::names_a_file(options_.output));
}

// Sorters of texts write side by side unless the output is in order (bucket_pipeline.cc).
uint32_t Planner::writers(const BucketPlan& plan) const {
  return options_.format.numeric() || writes_in_order() || seeks_slowly(plan_.device)
             ? 1
             : plan.sorters;
}

// Sets the largest size of the output at any time. An output that is cut first holds all sorted
// items; if it is not a file, another temporary holds them instead.
void Planner::decide_output() {
  if (plan_.method == Method::empty) return;
  decision_.output_bytes_max = input_.bytes;
  if (plan_.method == Method::top) {
    decision_.output_bytes_max = 0;
    for (const Step& step : steps_) {
      if (step.phase.name == "write") decision_.output_bytes_max += step.phase.bytes_written;
    }
  } else if (decision_.kept_share < 1) {
    decision_.output_bytes_max =
        static_cast<uint64_t>(decision_.kept_share * static_cast<double>(input_.bytes));
  }
  if (!decision_.cuts || !input_.known || io::names_a_file(options_.output)) return;
  plan_.temp_bytes += decision_.output_bytes_max;
  const double first_bytes = static_cast<double>(*options_.top) * input_.sample.item_bytes;
  const uint64_t copied = std::min(decision_.output_bytes_max, static_cast<uint64_t>(first_bytes));
  ++plan_.passes;
  plan_phase({.name = "write", .bytes_read = copied, .bytes_written = copied, .seeks = 1});
}

void Planner::decide_distribution(uint64_t bytes) {
  const BucketInput input = distributed(options_, input_, bytes);
  BucketPlan plan = plan_buckets(options_, usable_bytes_, input);
  // Numbers are written from the arena, with their own requests in flight.
  BucketTraffic sorted{.output_bytes = bytes,
                       .request_bytes = plan.output_block_bytes,
                       .in_flight_bytes = JobRequests::depth * JobRequests::bytes_max,
                       .writers = writers(plan)};
  if (takes_turns()) sorted.turn_bytes = plan.bytes_in_arena();
  if (!options_.format.numeric())
    sorted.in_flight_bytes = plan.output_blocks * plan.output_block_bytes;
  plan_.buckets = plan.buckets;
  plan_.passes = 1 + std::max(1u, splits_of(options_, plan, input));
  if (options_.resume) plan.held_bytes = plan.kept_bytes = 0;
  uint64_t spilled = bytes - std::min(bytes, plan.kept_bytes);  // at once, at most
  const uint32_t spill_files = std::min(files::spill_parts_max, plan.buckets);
  SplitTraffic traffic{.input_bytes = bytes,
                       .input_files = static_cast<uint32_t>(input_.pieces.size()),
                       .spilled_bytes = spilled,
                       .held_bytes = plan.held_bytes,
                       .kept_bytes = plan.kept_bytes,
                       .read_block_bytes = plan.read_block_bytes,
                       .write_block_bytes = plan.block_bytes,
                       .spill_files = spill_files,
                       .buckets = plan.buckets};
  auto split_step = [&] {
    Step step{.phase = predict_split("distribute", traffic), .outputs = plan.buckets};
    step.work = costs_.split_work(step.phase, plan);
    return step;
  };
  std::vector<Step> splits = {split_step()};
  traffic.input_bytes = traffic.spilled_bytes = bytes;
  traffic.held_bytes = traffic.kept_bytes = 0;
  traffic.read_block_bytes = plan.block_bytes;
  while (splits.size() + 1 < plan_.passes) {
    spilled = bytes;
    splits.push_back(split_step());
    splits.back().work.touched_bytes = 0;
  }
  sorted.spilled_bytes = spilled;
  sorted.spilled_block_bytes = plan.block_bytes;
  sorted.buckets = plan.buckets;
  sorted.buckets_per_spill_file = static_cast<uint32_t>(ceil_div(plan.buckets, spill_files));
  Step sort_step{.phase = predict_buckets("sort", sorted)};
  sort_step.work = costs_.sort_work(sort_step.phase, plan);
  if (!input_.known) return;
  plan_.temp_bytes = spilled + uint64_t{plan_.buckets} * io::sector_bytes;
  plan_.spilled_bytes = spilled;

  // The executor may distribute instead, if seeks dominate the cost on this device.
  if (seeks_slowly(plan_.device) && !input_.any_in_order() && !decision_.cuts && !options_.resume) {
    double usual_seconds = seconds_of(sort_step.phase, *plan_.device, 1, 1);
    for (const Step& split : splits)
      usual_seconds += seconds_of(split.phase, *plan_.device, 1, plan_.buckets);
    auto long_runs = plan_long_runs(options_, usable_bytes_, bytes, files::input_count(options_),
                                    input_.sample, input.in_order, *plan_.device);
    if (long_runs && long_runs->seconds() * long_runs_gain_min < usual_seconds) {
      plan_.long_runs = true;
      plan_.why += "; in long runs, because this disk seeks slowly";
      plan_.buckets = long_runs->buckets;
      plan_.passes = 1 + long_runs->levels;
      // A bucket that is distributed again is on the disk twice.
      plan_.temp_bytes = bytes + uint64_t{plan_.buckets} * io::sector_bytes +
                         (long_runs->levels > 1 ? 2 * bytes / plan_.buckets : 0) +
                         long_runs->heavy_bytes;
      plan_.spilled_bytes = bytes * long_runs->levels + long_runs->heavy_bytes;
      splits.front().phase = {
          .name = "distribute",
          .bytes_read = bytes,
          .bytes_written = bytes,
          .seeks = static_cast<uint64_t>(long_runs->distribution.traffic.switches)};
      splits.front().outputs = plan_.buckets;
      sort_step.phase = {.name = "sort",
                         .bytes_read = plan_.spilled_bytes,
                         .bytes_written = plan_.spilled_bytes,
                         .seeks = long_runs->again_switches + long_runs->sort_switches};
      plan_step(std::move(splits.front()));
      plan_step(std::move(sort_step));
      decision_.long_runs = long_runs;
      return;
    }
  }
  decide_compression(splits, sort_step, spilled, plan);
  for (Step& split : splits) plan_step(std::move(split));
  plan_step(std::move(sort_step));
}

// Searches between the budget and the machine's memory for the least memory that saves a pass. It
// bisects, since more memory never takes more passes.
void Planner::look_for_fewer_passes() {
  if (plan_.method != Method::distribute || !input_.known || plan_.long_runs) return;
  const uint64_t machine_bytes = os::machine_memory().memory_bytes;
  if (machine_bytes <= options_.memory_bytes) return;
  const BucketInput input = distributed(options_, input_, input_.bytes);
  auto saves = [&](uint64_t more) {
    const BucketPlan plan = plan_buckets(options_, usable_bytes_ + more, input);
    return 1 + splits_of(options_, plan, input) < plan_.passes;
  };
  // The program's own memory differs a little from run to run.
  const uint64_t spare_bytes = 16 * MiB;
  uint64_t too_little = 0, enough = machine_bytes - options_.memory_bytes;
  if (enough <= spare_bytes || !saves(enough - spare_bytes)) return;
  enough -= spare_bytes;
  while (enough - too_little > (options_.memory_bytes + enough) / 64 + MiB) {
    const uint64_t middle = too_little + (enough - too_little) / 2;
    (saves(middle) ? enough : too_little) = middle;
  }
  plan_.fewer_passes_memory_bytes = options_.memory_bytes + enough + spare_bytes;
}

// Decides whether temporaries are compressed. A sort that can be resumed never compresses; one that
// distributes more than once does only if the options ask for it (bucket_sort.cc).
void Planner::decide_compression(std::vector<Step>& splits, Step& sorted, uint64_t spilled,
                                 const BucketPlan& plan) {
  const bool always = options_.compression == Compression::always;
  if (options_.resume || options_.compression == Compression::never) return;
  plan_.compresses = always;
  if (!input_.known || spilled == 0 || input_.any_in_order()) return;
  if (!always && (!plan_.device || splits.size() > 1)) return;
  if (!always && !costs_.pays_to_try_compression(spilled)) return;
  if (tries_) {
    auto trial = options_.format.numeric()
                     ? try_packing(context_, input_.pieces, input_.sample.numbers, plan.buckets,
                                   plan.block_bytes / items::item_bytes_of(options_.format.type))
                     : try_compression(context_, input_.pieces);
    if (trial) costs_.compression = *trial;  // (The sort will tell what is wrong with the input.)
  }
  const std::optional<CompressionTrial>& trial = costs_.compression;
  if (!trial) return;
  Step split_smaller = splits.front();
  Step sorted_smaller = sorted;
  auto shrunk = [&](uint64_t of) {
    return static_cast<uint64_t>(static_cast<double>(of) * trial->ratio);
  };
  split_smaller.phase.bytes_written = shrunk(split_smaller.phase.bytes_written);
  sorted_smaller.phase.bytes_read = shrunk(sorted_smaller.phase.bytes_read);
  split_smaller.work.processor_seconds +=
      static_cast<double>(spilled) / trial->compress_bytes_per_s;
  sorted_smaller.work.processor_seconds +=
      static_cast<double>(spilled) / trial->inflate_bytes_per_s;
  if (!always) {
    const double usual = costs_.seconds_of(splits.front()) + costs_.seconds_of(sorted);
    const double smaller = costs_.seconds_of(split_smaller) + costs_.seconds_of(sorted_smaller);
    // Texts shrink about as much as the sample did; numbers were sampled all over the input.
    const bool numeric = options_.format.numeric();
    plan_.compresses =
        (numeric || trial->ratio <= 1 - 1.0 / shrinks_by) && usual > compression_gain_min * smaller;
  }
  if (!plan_.compresses) return;
  plan_.why += options_.format.numeric() ? "; temporaries lack the bits that their numbers share"
                                         : "; temporaries are compressed";
  plan_.temp_bytes = shrunk(spilled) + uint64_t{plan_.buckets} * io::sector_bytes;
  if (!always) decision_.temp_bytes_spared = spilled - shrunk(spilled);
  splits.front() = std::move(split_smaller);
  sorted = std::move(sorted_smaller);
}

}  // namespace

uint64_t expected_bytes(const SortOptions& options, const SortInput& input) {
  return input.known ? input.bytes : pipe_memory_multiple * options.memory_bytes;
}

bool fits_in_memory(const SortOptions& options, const SortInput& input) {
  if (!input.known) return false;
  return plan_buckets(options, input.usable_bytes, distributed(options, input, input.bytes)).fits;
}

Status check_memory(const SortOptions& options, const SortInput& input, const SortPlan& plan) {
  if (plan.method != Method::distribute || plan.long_runs) return {};
  const uint64_t input_bytes = expected_bytes(options, input);
  auto holds = [&](uint64_t usable_bytes) {
    const BucketInput all = distributed(options, input, input_bytes);
    return plan_levels(options, usable_bytes, all).back().holds;
  };
  uint64_t least_bytes = input.usable_bytes;
  while (!holds(least_bytes)) least_bytes += least_bytes / 16;
  if (least_bytes == input.usable_bytes) return {};
  constexpr unsigned many_threads = 256;  // their shares of the lists are what needs the memory
  return failure(ErrorCode::out_of_memory,
                 "sort " + bytes_text(input_bytes) + " within " + bytes_text(options.memory_bytes) +
                     ": the lists of blocks in temporaries need more",
                 "-S",
                 "at least " + std::to_string(files::budget_for(least_bytes) / MiB + 1) + "M" +
                     (options.threads > many_threads ? ", or fewer threads (--parallel)" : ""));
}

SortDecision decide_sort(Context& context, const std::optional<bowtie::DeviceProfile>& device,
                         const SortInput& input) {
  Costs costs(context, input, device);
  return Planner(context, costs, input, context.options, input.usable_bytes).decide_all();
}

}  // namespace penstock::external
