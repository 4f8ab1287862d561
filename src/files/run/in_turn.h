#pragma once

// A policy for inputs that are read one after the other: to the schedule they are one long input.
//
// The policy for n inputs (scheduler.h) does not know that the computation reaches the second input
// when the first has ended. It would keep a stair for each: memory for thousands of files that are
// not read yet. So a StairScheduler for 1 x m decides. It sees the sums over all inputs as its only
// input, and its reads go to the first input that has not been read to its end. An overlapped read
// (A2's reader) ends where a file ends; it continues with the next file unless the computation
// waits for something else, so that small files are read ahead as well as large ones.
//
// The executor still reserves a few blocks for each input (run.h: comeback_blocks), which bounds
// the inputs of one run: see streams_max() in file_run.h.

#include <memory>

#include "files/bowtie/scheduler.h"

namespace penstock::files {

// Thread safety: none, as every Scheduler. REQUIRES: the computation consumes its inputs in order.
class InTurnScheduler final : public bowtie::Scheduler {
 public:
  // `memory_bytes` and `block_bytes` are the run's. `outputs` may be 0.
  static Result<std::unique_ptr<InTurnScheduler>> open(uint32_t outputs, uint64_t memory_bytes,
                                                       size_t block_bytes);

  bowtie::Action next(const bowtie::View& view) override;

  const bowtie::Schedule& schedule() const { return schedule_; }  // for 1 x m

 private:
  InTurnScheduler(const bowtie::Schedule& schedule, std::unique_ptr<bowtie::Scheduler> single)
      : Scheduler(single->layout()), schedule_(schedule), single_(std::move(single)) {}

  bowtie::Action of_current(bowtie::Action action, const bowtie::View& view);

  const bowtie::Schedule schedule_;
  std::unique_ptr<bowtie::Scheduler> single_;  // for 1 x m
  uint32_t current_ = 0;                       // the first input that is not read to its end
  bowtie::Action last_;                        // the last action of `single_`
};

}  // namespace penstock::files
