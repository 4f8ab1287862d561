#pragma once

// Sort of files by buckets: split the input, sort the buckets, and split too large ones again.

#include <span>
#include <string>
#include <vector>

#include "files/run/sample.h"
#include "files/sort/bucket/bucket_pipeline.h"
#include "files/sort/plan/bucket_plan.h"
#include "files/sort/spill/block_arena.h"
#include "files/sort/split/split.h"

namespace penstock::external {

// Account of a run.
struct BucketSortStats {
  uint32_t levels = 0;  // levels of splits
  uint64_t kept_bytes = 0;
  uint64_t spilled_bytes = 0;
  uint64_t stored_bytes = 0;    // size of the spilled bytes on the disk
  size_t read_block_bytes = 0;  // block of the input's reader
  ItemSum read;                 // sum of the items that the first split read
  PipelineTimes times;
};

// Input of a run.
struct SortedInput {
  const std::vector<files::Piece>& pieces;
  uint64_t bytes = 0;           // expected
  bool known = true;            // whether `bytes` is certain
  files::Sample sample = {};    // gives the length of items, too
  scatter::KeyRange keys = {};  // bounds of all keys, of numbers
};

// Thread safety: one thread.
class BucketSort {
 public:
  // `memory_bytes`: memory for blocks and buffers. `compresses`: compress temporaries if their
  // blocks shrink. `resume`: use an earlier run's state and record this run's steps (without
  // compression), or nullptr.
  BucketSort(Context& context, uint64_t memory_bytes, std::vector<std::string> directories,
             bool compresses = false, Resume* resume = nullptr);

  // Uses the arena's memory before the first step, whose time is then that of the items alone.
  void touch_first() { touches_first_ = true; }

  // REQUIRES: if the target does not begin at a sector, a key exists below all keys of numbers.
  Result<Stored> run(SortedInput input, const Target& target);
  const BucketSortStats& stats() const { return stats_; }

 private:
  // A split of the input, or of a bucket that is too large.
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
