#pragma once

// The first phase of a sort of numbers: every item goes to the bucket of its key range. Buckets
// grow in blocks of the arena; when these become few, the last buckets go to temporaries.

#include <memory>
#include <vector>

#include "external/block_arena.h"
#include "external/bucket.h"
#include "external/number_plan.h"
#include "external/resume.h"
#include "external/sample.h"
#include "external/spill.h"
#include "sort/bucket_map.h"

namespace penstock::external {

// A bucket between the phases. Numbers are stored by their encoded keys.
//
// Invariant: all of it is in `spilled` (blocks of one size, in the order of the input, the last one
// with what is left), or in `kept`, or nowhere: then it is `constant`, and its items are its one
// key.
struct NumberBucket {
  sorting::KeyRange keys;
  uint64_t bytes = 0;
  bool constant = false;
  std::vector<uint32_t> spilled = {};  // blocks of its spill
  std::vector<uint32_t> kept = {};     // blocks of the arena
  uint32_t spill = 0;                  // which of the spills
  BucketId id = {};                    // where the sort can be resumed
};

struct SplitResult {
  // In the order of the output; those that are kept come first, and empty ones are left out. Each
  // that is spilled keeps its part of the spills.
  std::vector<NumberBucket> buckets;
  SpillSet spills;
  uint64_t bytes = 0;
  uint64_t spilled_bytes = 0;
  uint64_t spill_writes = 0;
};

// `keys`: what all keys lie within. Where the temporaries stay, all goes to them.
Result<SplitResult> split_numbers(Context& context, const std::vector<Piece>& pieces, Sample sample,
                                  const sorting::KeyRange& keys, const NumberPlan& plan,
                                  const SpillPlace& place, BlockArena& arena);

}  // namespace penstock::external
