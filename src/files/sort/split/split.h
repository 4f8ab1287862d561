#pragma once

// First phase of a sort: every item goes to the bucket of its key range, in the order of the input.
// Buckets grow in blocks of the arena; when these run out, the last buckets go to temporaries. The
// result, a Split, is the input of the second phase, which sorts the buckets.

#include <cstdint>
#include <vector>

#include "files/run/input.h"
#include "files/run/sample.h"
#include "files/sort/bucket.h"
#include "files/sort/context.h"
#include "files/sort/plan/bucket_plan.h"
#include "files/sort/resume/resume.h"
#include "files/sort/spill/block_arena.h"
#include "files/sort/spill/spill.h"
#include "sorting/scatter/bucket_map.h"

namespace penstock::external {

// A bucket between the phases: its items one behind the other, across its blocks, in the order of
// the input. Numbers are stored by their encoded keys.
//
// Invariant: all of the bucket is in `spilled` (blocks of one size, the last one partly filled), or
// in `kept`, or not stored: then it is `constant`, and its items are its one key.
struct SplitBucket {
  scatter::KeyRange keys = {};  // range of the keys, of numbers
  uint64_t bytes = 0;
  uint64_t items = 0;
  bool constant = false;               // all keys are equal
  std::vector<uint32_t> spilled = {};  // blocks of its spill
  std::vector<uint32_t> kept = {};     // blocks of the arena
  // Size and check of each spilled block on the disk, if blocks may be compressed (spill_codec.h).
  // Empty if none is; reads then check them (io/block_checks.h).
  std::vector<StoredBlock> stored_blocks = {};
  uint32_t spill = 0;  // index of the bucket's spill
  // Sum of a constant bucket's items that are not summed up again: if repeats are dropped, all but
  // the first item, which alone is read; otherwise, if the items' lengths differ, all of them.
  ItemSum rest = {};
  BucketId id = {};  // set if the sort can be resumed
};

struct Split {
  // Buckets in the order of the output without the empty ones; kept buckets come first. Each
  // spilled bucket keeps its part of the spills.
  std::vector<SplitBucket> buckets;
  SpillSet spills;
  MemoryCharge lists = {};  // memory of the lists of blocks in temporaries
  ItemSum read;             // sum of the distributed items
  uint64_t spilled_bytes = 0;
  uint64_t stored_bytes = 0;  // size of the spilled bytes on the disk

  uint64_t kept_bytes() const;  // including counted ones: bytes that are not read again
  uint64_t list_bytes() const;  // memory of the lists of blocks in temporaries
};

struct SplitInput {
  const std::vector<files::Piece>& pieces;
  scatter::KeyRange keys = {};  // bounds of all keys, of numbers
  bool encoded = false;         // an earlier split encoded the numbers
  const BucketPlan& plan;
  bool compresses = false;  // compress blocks that shrink
  const SpillPlace& place;  // everything is spilled if the place keeps its temporaries
  BlockArena& arena;        // REQUIRES: cut as planned
};
Result<Split> split_items(Context& context, const SplitInput& input, files::Sample sample);

// Writes the split of the bucket `of` to the journal, and sets the ids of the split's buckets.
Status save_split(Resume& resume, BucketId of, Split& split);
// Loads the split of an earlier run. REQUIRES: resume.has_split(of).
Result<Split> take_split(Resume& resume, BucketId of);

}  // namespace penstock::external
