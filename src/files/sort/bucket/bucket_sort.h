#pragma once

// The sort of what lies in files by buckets: split, sort the buckets, and again where one is too
// large.

#include <span>
#include <string>
#include <vector>

#include "files/run/sample.h"
#include "files/sort/bucket/bucket_pipeline.h"
#include "files/sort/plan/bucket_plan.h"
#include "files/sort/spill/block_arena.h"
#include "files/sort/split/split.h"

namespace penstock::external {

// What a run did.
struct BucketSortStats {
  uint32_t levels = 0;  // of splits
  uint64_t kept_bytes = 0;
  uint64_t spilled_bytes = 0;
  uint64_t stored_bytes = 0;    // of these, on the disk
  size_t read_block_bytes = 0;  // of the input
  ItemSum read;                 // by the first split
  PipelineTimes times;
};

// What is sorted.
struct SortedInput {
  const std::vector<files::Piece>& pieces;
  uint64_t bytes = 0;           // expected
  bool known = true;            // for certain
  files::Sample sample = {};    // says how long items are, too
  scatter::KeyRange keys = {};  // what all keys lie within, of numbers
};

// Thread safety: one thread.
class BucketSort {
 public:
  // `memory_bytes`: what blocks and buffers may take. `compresses`: temporaries, where
  // blocks shrink. `resume`: what there is of it is taken, and what is done is written
  // down there (and nothing is compressed); or nullptr.
  BucketSort(Context& context, uint64_t memory_bytes, std::vector<std::string> directories,
             bool compresses = false, Resume* resume = nullptr);

  // The memory that items go to is used before the first step, whose time is then that of the items alone.
  void touch_first() { touches_first_ = true; }

  // REQUIRES: where the target does not begin with a sector there is a key below those of numbers.
  Result<Stored> run(SortedInput input, const Target& target);
  const BucketSortStats& stats() const { return stats_; }

 private:
  // Of an input, or of a bucket that is split again.
  struct Level {
    unsigned depth = 0;
    BucketId id = {};
    Resume* resume = nullptr;
    BucketPlan plan = {};
  };
  Result<Split> split(SortedInput input, const Level& level);
  Result<Split> take_split(const Level& level);
  Result<Stored> sort_buckets(Split& split, const Level& level, const Target& target);
  Result<Stored> sort_again(SplitBucket& bucket, SpillSet& spills, const Target& target,
                            const Level& above);
  Result<io::File> inflate(const SplitBucket& bucket, const SpillSet& spills);

  Context& context_;
  uint64_t memory_bytes_;
  std::vector<std::string> directories_;
  const bool compresses_;
  bool touches_first_ = false;
  Resume* resume_;
  BlockArena arena_;
  BucketSortStats stats_;
};

}  // namespace penstock::external
