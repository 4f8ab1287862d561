#pragma once

// The second phase of a sort of records or lines: buckets are read, sorted, and gathered to the
// output, all three at the same time.

#include <span>

#include "external/block_arena.h"
#include "external/bucket_plan.h"
#include "external/context.h"
#include "external/split.h"

namespace penstock::external {

// Sorts buckets, all of which fit `plan` or are constant, to `target` and on. The kept ones lie in
// the arena; each that was spilled releases its part of `spills` when it has been read; with
// `resume`, when it is written down there that it is done. Runs its own threads.
Result<Stored> sort_string_buckets(Context& context, std::span<const SplitBucket> buckets,
                                   const BucketPlan& plan, BlockArena& arena, SpillSet& spills,
                                   const Target& target, Resume* resume);

}  // namespace penstock::external
