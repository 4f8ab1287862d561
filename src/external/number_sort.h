#pragma once

// The sort of numbers that lie in files: split, sort the buckets, and again where one is too large.

#include <memory>
#include <string>
#include <vector>

#include "external/block_arena.h"
#include "external/bucket_plan.h"
#include "external/number_pipeline.h"
#include "external/number_split.h"
#include "external/sample.h"

namespace penstock::external {

// What a run did.
struct NumberSortStats {
  uint32_t levels = 0;  // of splits
  uint64_t kept_bytes = 0;
  uint64_t spilled_bytes = 0;
  ItemSum read;  // by the first split
  PipelineTimes times;
};

// Thread safety: one thread.
class NumberSort {
 public:
  // `memory_bytes`: what blocks and buffers may take. REQUIRES: the format is numeric.
  // `resume`: what there is of it is taken, and what is done is written down there; or nullptr.
  NumberSort(Context& context, uint64_t memory_bytes, std::vector<std::string> directories,
             Resume* resume = nullptr);

  // `bytes`: expected; `known`: for certain. `keys`: what all keys lie within. REQUIRES: where the
  // target does not begin with a sector there is a key below them.
  Result<Stored> run(const std::vector<Piece>& pieces, uint64_t bytes, bool known, Sample sample,
                     const Target& target, const sorting::KeyRange& keys = {});
  const NumberSortStats& stats() const { return stats_; }

 private:
  Result<Split> split(const std::vector<Piece>& pieces, const BucketPlan& plan, Sample sample,
                      const sorting::KeyRange& keys, unsigned depth, BucketId id, Resume* resume);
  Result<Split> take_split(const BucketPlan& plan, BucketId id, unsigned depth);
  Result<Stored> sort_buckets(Split& split, const BucketPlan& plan, const Target& target,
                              unsigned depth, Resume* resume);
  Result<Stored> sort_again(SplitBucket& bucket, SpillSet& spills, const Target& target,
                            unsigned depth, Resume* resume);
  Status open_ordered(const Target& target, uint64_t bytes, bool known, const BucketPlan& plan);

  Context& context_;
  uint64_t memory_bytes_;
  std::vector<std::string> directories_;
  Resume* resume_;
  BlockArena arena_;
  std::unique_ptr<OrderedOutput> ordered_;
  NumberSortStats stats_;
};

}  // namespace penstock::external
