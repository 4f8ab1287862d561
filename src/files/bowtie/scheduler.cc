#include "files/bowtie/scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace penstock::bowtie {
namespace {

// The outputs that hold bytes, the fullest first; at most `count`.
std::vector<uint32_t> largest_outputs(const View& view, size_t count) {
  std::vector<uint32_t> order;
  for (uint32_t j = 0; j < view.output_bytes.size(); ++j) {
    if (view.output_bytes[j] > 0) order.push_back(j);
  }
  count = std::min(count, order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<ptrdiff_t>(count), order.end(),
                    [&](uint32_t a, uint32_t b) {
                      const uint64_t left = view.output_bytes[a];
                      const uint64_t right = view.output_bytes[b];
                      return left != right ? left > right : a < b;
                    });
  order.resize(count);
  return order;
}

// Memory that the inputs give up so that the outputs can go longer without a visit (see the essay);
// 0 if only one side has a staircase.
uint64_t slack_bytes(const Schedule& schedule) {
  if (schedule.bowtie.inputs < 2 || schedule.bowtie.outputs < 2) return 0;
  return std::min(schedule.input_memory_bytes / 400, schedule.output_memory_bytes / 4);
}

constexpr uint64_t everything = ~uint64_t{0};

Action read_action(const Load& load) {
  return {.kind = Action::Kind::read, .stream = load.input, .bytes = load.bytes};
}

}  // namespace

Result<std::unique_ptr<StairScheduler>> StairScheduler::open(const Schedule& schedule,
                                                             const Options& options) {
  const Bowtie& bowtie = schedule.bowtie;
  // A block for each input, and one more to read ahead into; two for bytes to the outputs.
  const uint64_t inputs_min =
      bowtie.inputs == 0 ? 0 : (uint64_t{bowtie.inputs} + 1) * options.block_bytes;
  const uint64_t outputs_min = bowtie.outputs == 0 ? 0 : 2 * options.block_bytes;
  if (options.block_bytes == 0 || inputs_min + outputs_min > bowtie.memory_bytes) {
    return failure(
        ErrorCode::out_of_memory,
        fmt::format("schedule {} inputs and {} outputs", bowtie.inputs, bowtie.outputs),
        fmt::format("{} bytes in blocks of {}", bowtie.memory_bytes, options.block_bytes),
        "fewer streams in several passes, more memory, or smaller blocks");
  }
  Layout layout;
  layout.block_bytes = options.block_bytes;
  layout.input_memory_bytes = std::clamp(schedule.input_memory_bytes - slack_bytes(schedule),
                                         inputs_min, bowtie.memory_bytes - outputs_min);
  if (bowtie.inputs == 0) layout.input_memory_bytes = 0;
  layout.output_memory_bytes =
      bowtie.outputs == 0 ? 0 : bowtie.memory_bytes - layout.input_memory_bytes;
  return std::unique_ptr<StairScheduler>(new StairScheduler(schedule, layout));
}

StairScheduler::StairScheduler(const Schedule& schedule, Layout layout)
    : Scheduler(layout),
      schedule_(schedule),
      stairs_({.inputs = schedule.bowtie.inputs,
               .group = schedule.groups.inputs,
               .overlapped = schedule.algorithm == Algorithm::a2 ||
                             schedule.algorithm == Algorithm::a3 ||
                             schedule.algorithm == Algorithm::a6r,
               .memory_bytes = layout.input_memory_bytes,
               .block_bytes = layout.block_bytes}) {}

bool StairScheduler::reads_overlapped() const {
  return reads_overlap(schedule_.algorithm);
}

bool StairScheduler::writes_overlapped() const {
  return writes_overlap(schedule_.algorithm);
}

Action StairScheduler::next(const View& view) {
  stairs_.note(view);
  if (!started_) start(view);
  for (int round = 0; round < 3; ++round) {
    while (!queue_.empty()) {
      Action action = queue_.front();
      queue_.pop_front();
      if (action.kind == Action::Kind::read) {
        if (view.input_left_bytes[action.stream] == 0) continue;
        const uint64_t room = stairs_.room(view, action.stream);
        if (action.overlapped) {
          action.bytes = view.input_bytes[action.stream] + room;
        } else {
          // The planned bytes still fit, unless the driver moved whole blocks.
          action.bytes = std::min(action.bytes, room);
          if (action.bytes == 0) continue;
        }
      }
      if (action.kind == Action::Kind::write && !action.stay &&
          view.output_bytes[action.stream] == 0) {
        continue;
      }
      return action;
    }
    plan(view);
  }
  PENSTOCK_CHECK(false, "a plan that does nothing");
}

void StairScheduler::plan(const View& view) {
  switch (view.stall) {
    case Stall::none:
      // A single output is written all the time; otherwise no action is due.
      if (writes_overlapped() && view.output_bytes.size() == 1 && reads_overlapped() == false &&
          !view.input_bytes.empty()) {
        queue_.push_back({.kind = Action::Kind::write, .overlapped = true, .stay = true});
      } else {
        queue_.push_back({.kind = Action::Kind::compute});
      }
      return;
    case Stall::input:
      return input_ran_empty(view, view.stalled_input);
    case Stall::outputs:
      return outputs_are_full(view);
    case Stall::finished:
      return flush(view);
  }
}

void StairScheduler::start(const View& view) {
  started_ = true;
  for (const Load& load : stairs_.preload(view)) queue_.push_back(read_action(load));
}

void StairScheduler::input_ran_empty(const View& view, uint32_t input) {
  if (reads_overlapped()) {
    if (streamed_ != none && streamed_ != input) {
      fill_streamed(view);
      if (group_write_due(view)) write_group(view);
    }
    wrote_in_step_ = false;
    stream(input);
    return;
  }
  if (written_ != none) write_all_of(written_);
  if (view.output_bytes.size() > 1) written_ = none;
  if (group_write_due(view)) write_group(view);
  wrote_in_step_ = false;
  load_group(view, input);
}

void StairScheduler::outputs_are_full(const View& view) {
  if (writes_overlapped()) {
    written_ = largest_output(view);
    queue_.push_back({.kind = Action::Kind::write,
                      .stream = written_,
                      .overlapped = true,
                      .stay = view.output_bytes.size() == 1});
    return;
  }
  if (reads_overlapped()) fill_streamed(view);
  write_group(view);
}

void StairScheduler::flush(const View& view) {
  if (written_ != none) write_all_of(written_);
  for (uint32_t output : largest_outputs(view, view.output_bytes.size())) {
    if (output != written_) write_all_of(output);
  }
  queue_.push_back({.kind = Action::Kind::finish});
}

// The device is at this input: reading more of it now costs no switch.
void StairScheduler::fill_streamed(const View& view) {
  if (streamed_ == none) return;
  if (uint64_t bytes = stairs_.fill(view, streamed_); bytes > 0)
    queue_.push_back(read_action({streamed_, bytes}));
  streamed_ = none;
}

void StairScheduler::stream(uint32_t input) {
  streamed_ = input;
  // The limit of its bucket is computed when the action is due.
  queue_.push_back({.kind = Action::Kind::read, .stream = input, .overlapped = true});
}

void StairScheduler::load_group(const View& view, uint32_t input) {
  for (const Load& load : stairs_.load_group(view, input)) queue_.push_back(read_action(load));
}

void StairScheduler::write_group(const View& view) {
  const uint32_t outputs = schedule_.bowtie.outputs;
  const uint32_t groups = groups_of(outputs, schedule_.groups.outputs);
  const uint32_t usual = group_size(outputs, groups, written_groups_++);
  const double missing = room_missing(view);
  const std::vector<uint32_t> largest = largest_outputs(view, 2 * usual);
  size_t count = std::min<size_t>(usual, largest.size());
  double room = 0;
  for (size_t i = 0; i < largest.size(); ++i) {
    room += static_cast<double>(view.output_bytes[largest[i]]);
    if (room >= missing) {
      count = i + 1;
      break;
    }
  }
  for (size_t i = 0; i < count; ++i) write_all_of(largest[i]);
  wrote_in_step_ = true;
}

// The room that the outputs still need until the end of the inputs: the last step writes no more
// than that, and a step becomes the last one if that takes less than another group.
double StairScheduler::room_missing(const View& view) const {
  if (view.more_comes) return std::numeric_limits<double>::infinity();
  double inputs = 0;
  for (size_t i = 0; i < view.input_bytes.size(); ++i) {
    if (view.input_left_bytes[i] == unknown_bytes) return std::numeric_limits<double>::infinity();
    inputs += static_cast<double>(view.input_left_bytes[i] + view.input_bytes[i]);
  }
  const double alpha = schedule_.bowtie.input_share;
  double missing = inputs * (1 - alpha) / alpha - static_cast<double>(layout_.output_memory_bytes);
  for (uint64_t held : view.output_bytes) missing += static_cast<double>(held);
  return missing;
}

void StairScheduler::write_all_of(uint32_t output) {
  queue_.push_back({.kind = Action::Kind::write, .stream = output, .bytes = everything});
}

bool StairScheduler::group_write_due(const View& view) const {
  if (writes_overlapped() || view.output_bytes.empty() || wrote_in_step_) return false;
  double bytes = 0;
  for (uint32_t output : largest_outputs(view, schedule_.groups.outputs))
    bytes += static_cast<double>(view.output_bytes[output]);
  return bytes >= (1 - schedule_.bowtie.input_share) * schedule_.step_bytes / 2;
}

uint32_t StairScheduler::largest_output(const View& view) const {
  return static_cast<uint32_t>(
      std::max_element(view.output_bytes.begin(), view.output_bytes.end()) -
      view.output_bytes.begin());
}

}  // namespace penstock::bowtie
