#pragma once

// Second phase of a sort: buckets are read, sorted and written, all three at the same time.

#include <span>

#include "files/sort/context.h"
#include "files/sort/plan/bucket_plan.h"
#include "files/sort/spill/block_arena.h"
#include "files/sort/split/split.h"

namespace penstock::external {

// Times that threads worked or waited.
struct PipelineTimes {
  double sort_s = 0;       // sum over all sorters at work
  double wait_read_s = 0;  // sorters wait for a bucket to be read
  double wait_room_s = 0;  // the reader waits for a bucket to be written
};

struct PipelineInput {
  std::span<const SplitBucket> buckets;  // each fits the plan, or is constant
  const BucketPlan& plan;
  BlockArena& arena;  // holds the kept buckets
  // Spilled buckets release their parts when they are read, or with `resume` when recorded as done.
  SpillSet& spills;
  Target target;  // place of the first bucket; the others follow
  Resume* resume = nullptr;
};

// Runs its own threads. Adds to `times`.
Result<Stored> sort_in_pipeline(Context& context, const PipelineInput& input, PipelineTimes& times);

}  // namespace penstock::external
