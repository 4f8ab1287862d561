#pragma once

// The first phase of a sort of numbers: every item goes to the bucket of its key range. Buckets
// grow in blocks of the arena; when these become few, the last buckets go to temporaries.

#include <vector>

#include "external/block_arena.h"
#include "external/bucket_plan.h"
#include "external/sample.h"
#include "external/split.h"
#include "sort/bucket_map.h"

namespace penstock::external {

// `keys`: what all keys lie within. Where the temporaries stay, all goes to them. REQUIRES: the
// arena is cut as planned.
Result<Split> split_numbers(Context& context, const std::vector<Piece>& pieces, Sample sample,
                            const sorting::KeyRange& keys, const BucketPlan& plan,
                            const SpillPlace& place, BlockArena& arena);

}  // namespace penstock::external
