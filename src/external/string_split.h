#pragma once

// The first phase of a sort of records or lines: every item goes to the bucket of its key range, in
// the order of the input. Buckets grow in blocks of the arena; when these become few, the last
// buckets go to temporaries.

#include <vector>

#include "external/block_arena.h"
#include "external/bucket_plan.h"
#include "external/sample.h"
#include "external/split.h"

namespace penstock::external {

// Where the temporaries stay, all goes to them. REQUIRES: the arena is cut as planned.
Result<Split> split_strings(Context& context, const std::vector<Piece>& pieces, Sample sample,
                            const BucketPlan& plan, bool compresses, const SpillPlace& place,
                            BlockArena& arena);

}  // namespace penstock::external
