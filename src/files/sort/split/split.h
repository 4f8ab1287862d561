#pragma once

// The first phase of a sort: every item goes to the bucket of its key range, in the order of the
// input. Buckets grow in blocks of the arena; when these become few, the last buckets go to
// temporaries. And what it leaves for the phase that sorts the buckets.

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
// Invariant: all of it is in `spilled` (blocks of one size, the last one with what is left), or in
// `kept`, or nowhere: then it is `constant`, and its items are its one key.
struct SplitBucket {
  scatter::KeyRange keys = {};  // of numbers
  uint64_t bytes = 0;
  uint64_t items = 0;
  bool constant = false;               // all keys are equal
  std::vector<uint32_t> spilled = {};  // blocks of its spill
  std::vector<uint32_t> kept = {};     // blocks of the arena
  // Where blocks may be compressed (spill_codec.h), each spilled one as it is on the disk. Empty:
  // none is, and they are checked as they are read.
  std::vector<StoredBlock> stored_blocks = {};
  uint32_t spill = 0;  // which of the spills
  // Of a constant bucket. Where repeats are dropped, so that only its first item is read again: the
  // others. Otherwise, if its items are of several lengths: all.
  ItemSum rest = {};
  BucketId id = {};  // where the sort can be resumed
};

struct Split {
  // In the order of the output; those that are kept come first, and empty ones are left out. Each
  // that is spilled keeps its part of the spills.
  std::vector<SplitBucket> buckets;
  SpillSet spills;
  MemoryCharge lists = {};  // of what is known of the blocks in temporaries
  ItemSum read;             // what was split
  uint64_t spilled_bytes = 0;
  uint64_t stored_bytes = 0;  // of these, on the disk

  uint64_t kept_bytes() const;  // or counted: what need not be read again
  uint64_t list_bytes() const;  // of memory, for what is known of the blocks in temporaries
};

struct SplitInput {
  const std::vector<files::Piece>& pieces;
  scatter::KeyRange keys = {};  // what all keys lie within, of numbers
  bool encoded = false;         // numbers, by a split before
  const BucketPlan& plan;
  bool compresses = false;  // what is written, where it shrinks
  const SpillPlace& place;  // where the temporaries stay, all goes to them
  BlockArena& arena;        // REQUIRES: cut as planned
};
Result<Split> split_items(Context& context, const SplitInput& input, files::Sample sample);

// Writes down that the bucket `of` is split, and gives the split's buckets their names.
Status save_split(Resume& resume, BucketId of, Split& split);
// What an earlier run has split. REQUIRES: resume.has_split(of).
Result<Split> take_split(Resume& resume, BucketId of);

}  // namespace penstock::external
