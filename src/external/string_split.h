#pragma once

// The first phase of a sort of records or lines: every item goes to the bucket of its key range, in
// the order of the input. Buckets grow in blocks of the arena; when these become few, the last
// buckets go to temporaries.

#include <cstdint>
#include <vector>

#include "external/block_arena.h"
#include "external/bucket.h"
#include "external/sample.h"
#include "external/spill.h"
#include "external/string_plan.h"

namespace penstock::external {

// A bucket between the phases: whole items, one behind the other, across its blocks.
//
// Invariant: all of it is in `spilled` (blocks of one size, the last one with what is left), or in
// `kept`.
struct StringBucket {
  uint64_t bytes = 0;
  uint64_t items = 0;
  bool constant = false;               // all keys are equal
  std::vector<uint32_t> spilled = {};  // blocks of its spill
  std::vector<uint32_t> kept = {};     // blocks of the arena
  // What each spilled block takes on the disk: less than it holds if it is compressed. Empty: none
  // is.
  std::vector<uint32_t> stored_bytes = {};
  uint32_t spill = 0;  // which of the spills
  BucketId id = {};    // where the sort can be resumed
};

struct StringSplit {
  // In the order of the output; those that are kept come first, and empty ones are left out. Each
  // that is spilled keeps its part of the spills.
  std::vector<StringBucket> buckets;
  SpillSet spills;
  uint64_t spilled_bytes = 0;
  uint64_t stored_bytes = 0;  // of these, on the disk
};

// Where the temporaries stay, all goes to them.
Result<StringSplit> split_strings(Context& context, const std::vector<Piece>& pieces, Sample sample,
                                  const StringPlan& plan, bool compresses, const SpillPlace& place,
                                  BlockArena& arena);

}  // namespace penstock::external
