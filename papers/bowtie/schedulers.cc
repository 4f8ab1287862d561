#include "papers/bowtie/schedulers.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace penstock::papers {
namespace {

constexpr uint64_t everything = std::numeric_limits<uint64_t>::max();

Action read_action(uint32_t input, uint64_t bytes) {
  return {.kind = Action::Kind::read, .stream = input, .bytes = bytes};
}

// All outputs, the fullest first.
std::vector<uint32_t> outputs_by_size(const View& view) {
  std::vector<uint32_t> order;
  for (uint32_t j = 0; j < view.output_bytes.size(); ++j) {
    if (view.output_bytes[j] > 0) order.push_back(j);
  }
  std::ranges::stable_sort(order, std::ranges::greater{},
                           [&](uint32_t j) { return view.output_bytes[j]; });
  return order;
}

Action take_from(std::deque<Action>& queue) {
  if (queue.empty()) return {.kind = Action::Kind::compute};
  const Action action = queue.front();
  queue.pop_front();
  return action;
}

}  // namespace

BlockScheduler::BlockScheduler(const Options& options)
    : Scheduler({.input_memory_bytes = options.inputs * options.block_bytes,
                 .output_memory_bytes = options.write_batch_bytes,
                 .block_bytes = options.block_bytes}) {}

Action BlockScheduler::next(const View& view) {
  if (!started_) {
    started_ = true;
    const auto inputs = static_cast<uint32_t>(view.input_bytes.size());
    for (uint32_t i = 0; i < inputs; ++i) {
      // Starts in the middle of a merge: the inputs are at different places of their blocks.
      const uint64_t bytes = std::max<uint64_t>(1, layout_.block_bytes * (i + 1) / inputs);
      queue_.push_back(read_action(i, bytes));
    }
  }
  if (queue_.empty()) {
    switch (view.stall) {
      case Stall::none:
        break;
      case Stall::input:
        queue_.push_back(read_action(view.stalled_input, layout_.block_bytes));
        break;
      case Stall::outputs:
      case Stall::finished:
        for (uint32_t output : outputs_by_size(view))
          queue_.push_back({.kind = Action::Kind::write, .stream = output, .bytes = everything});
        if (view.stall == Stall::finished) queue_.push_back({.kind = Action::Kind::finish});
        break;
    }
  }
  return take_from(queue_);
}

FillingScheduler::FillingScheduler(const Options& options)
    : Scheduler({.input_memory_bytes = options.memory_bytes, .block_bytes = options.block_bytes}),
      stairs_({.inputs = options.inputs,
               .overlapped = true,
               .memory_bytes = options.memory_bytes,
               .block_bytes = options.block_bytes}) {}

Action FillingScheduler::next(const View& view) {
  stairs_.note(view);
  if (!started_) {
    started_ = true;
    for (const Load& load : stairs_.preload(view))
      queue_.push_back(read_action(load.input, load.bytes));
  }
  if (queue_.empty() && view.stall == Stall::input) {
    const uint32_t input = view.stalled_input;
    if (streamed_ && *streamed_ != input && view.input_left_bytes[*streamed_] > 0)
      queue_.push_back(read_action(*streamed_, stairs_.room(view, *streamed_)));
    streamed_ = input;
    queue_.push_back({.kind = Action::Kind::read, .stream = input, .overlapped = true});
  }
  if (view.stall == Stall::finished) return {.kind = Action::Kind::finish};
  Action action = take_from(queue_);
  // The room of the bucket is known only at its turn.
  if (action.overlapped)
    action.bytes = view.input_bytes[action.stream] + stairs_.room(view, action.stream);
  return action;
}

}  // namespace penstock::papers
