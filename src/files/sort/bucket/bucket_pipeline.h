#pragma once

// The second phase of a sort: buckets are read, sorted, and written, all three at the same time.

#include <span>

#include "files/sort/context.h"
#include "files/sort/plan/bucket_plan.h"
#include "files/sort/spill/block_arena.h"
#include "files/sort/split/split.h"

namespace penstock::external {

// How long threads waited, and for what.
struct PipelineTimes {
  double sort_s = 0;       // all sorters together, at work
  double wait_read_s = 0;  // sorters, for a bucket to be there
  double wait_room_s = 0;  // the reader, for a bucket to be written
};

struct PipelineInput {
  std::span<const SplitBucket> buckets;  // each fits the plan, or is constant
  const BucketPlan& plan;
  BlockArena& arena;  // in which kept ones lie
  // Each that was spilled releases its part when it has been read; with `resume`, when it is
  // written down there that it is done.
  SpillSet& spills;
  Target target;  // they go there, and on from there
  Resume* resume = nullptr;
};

// Runs its own threads. Adds to `times`.
Result<Stored> sort_in_pipeline(Context& context, const PipelineInput& input, PipelineTimes& times);

}  // namespace penstock::external
