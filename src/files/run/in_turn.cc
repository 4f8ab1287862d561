#include "files/run/in_turn.h"

#include <algorithm>
#include <numeric>

namespace penstock::files {
namespace {

using bowtie::Action;
using bowtie::Stall;
using bowtie::unknown_bytes;
using bowtie::View;

uint64_t sum(std::span<const uint64_t> values) {
  return std::accumulate(values.begin(), values.end(), uint64_t{0});
}

}  // namespace

Result<std::unique_ptr<InTurnScheduler>> InTurnScheduler::open(uint32_t outputs,
                                                               uint64_t memory_bytes,
                                                               size_t block_bytes) {
  // Half a block of each stream is in use and in no bucket (execution.cc).
  const uint64_t lost_bytes = (uint64_t{outputs} + 1) * block_bytes / 2;
  const bowtie::Bowtie bowtie{.inputs = 1,
                              .outputs = outputs,
                              .input_share = outputs == 0 ? 1.0 : 0.5,
                              .memory_bytes = memory_bytes - std::min(memory_bytes, lost_bytes)};
  const bowtie::Schedule schedule = bowtie::best_schedule(bowtie);
  auto single = bowtie::StairScheduler::open(schedule, {.block_bytes = block_bytes});
  if (!single) return std::unexpected(single.error());
  return std::unique_ptr<InTurnScheduler>(new InTurnScheduler(schedule, std::move(*single)));
}

Action InTurnScheduler::next(const View& view) {
  const auto inputs = static_cast<uint32_t>(view.input_bytes.size());
  const uint32_t before = current_;
  // (The end of an input may be dropped and read again: RunOptions::wide_windows.)
  current_ = 0;
  while (current_ < inputs && view.input_left_bytes[current_] == 0) ++current_;
  const bool waits_for_outputs = view.stall == Stall::outputs || view.stall == Stall::finished;
  if (last_.kind == Action::Kind::read && last_.overlapped && current_ != before &&
      current_ < inputs && !waits_for_outputs && sum(view.input_bytes) < last_.bytes)
    return of_current(last_, view);

  const uint64_t bytes = sum(view.input_bytes);
  const uint64_t consumed = sum(view.input_consumed_bytes);
  uint64_t left = 0;
  for (const uint64_t each : view.input_left_bytes)
    left = each == unknown_bytes || left == unknown_bytes ? unknown_bytes : left + each;
  View single = view;
  single.input_bytes = {&bytes, 1};
  single.input_left_bytes = {&left, 1};
  single.input_consumed_bytes = {&consumed, 1};
  single.stalled_input = 0;
  last_ = single_->next(single);
  return last_.kind == Action::Kind::read ? of_current(last_, view) : last_;
}

// Directs an action for the single input to the input whose turn it is. The limit of an overlapped
// read includes the bytes in the buckets of earlier inputs.
Action InTurnScheduler::of_current(Action action, const View& view) {
  action.stream = current_;
  if (action.overlapped)
    action.bytes -= std::min(action.bytes, sum(view.input_bytes) - view.input_bytes[current_]);
  return action;
}

}  // namespace penstock::files
