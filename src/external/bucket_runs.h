#pragma once

// The buckets of a split in the order of the output: runs of those that fit in memory, each sorted
// by one pipeline; between them those that are too large, which are split again; and what an
// earlier run has done.

#include <functional>
#include <span>

#include "external/block_arena.h"
#include "external/context.h"
#include "external/split.h"

namespace penstock::external {

// What a sort does with its buckets.
struct BucketWork {
  // Whether it can be sorted in one piece, or needs no sorting.
  std::function<bool(const SplitBucket&)> fits;
  std::function<Result<Stored>(std::span<const SplitBucket>, const Target&)> sort;
  // May use the arena otherwise: nothing is kept there any more, of buckets behind this one either.
  std::function<Result<Stored>(SplitBucket&, const Target&)> split_again;
};

// `resume`: what there is of it is taken; or nullptr.
Result<Stored> sort_in_runs(Context& context, BlockArena& arena, std::span<SplitBucket> buckets,
                            const Target& target, const Resume* resume, const BucketWork& work);

// Writes down that a bucket stands in the output from `target` on, which was split and sorted with
// no record of the parts.
Status record_whole(Resume& resume, BucketId id, const Target& target, const Stored& stored);

}  // namespace penstock::external
