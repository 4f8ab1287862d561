#pragma once

// The sort of numbers that lie in files: split, sort the buckets, and again where one is too large.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "external/block_arena.h"
#include "external/number_pipeline.h"
#include "external/number_plan.h"
#include "external/number_split.h"
#include "external/sample.h"

namespace penstock::external {

// What a run did.
struct NumberSortStats {
  uint32_t levels = 0;  // of splits
  uint64_t kept_bytes = 0;
  uint64_t spilled_bytes = 0;
  uint64_t spill_writes = 0;
  double split_s = 0;
  double buckets_s = 0;
  PipelineTimes times;
};

// Thread safety: one thread.
class NumberSort {
 public:
  // `memory_bytes`: what blocks and buffers may take. REQUIRES: the format is numeric.
  NumberSort(Context& context, uint64_t memory_bytes, std::vector<std::string> directories);

  // `bytes`: expected; `known`: for certain.
  Result<Stored> run(const std::vector<Piece>& pieces, uint64_t bytes, bool known, Sample sample,
                     const Target& target);
  const NumberSortStats& stats() const { return stats_; }

 private:
  // `read`: called when the pieces have been read.
  template <class Read>
  Result<Stored> sort(const std::vector<Piece>& pieces, const NumberPlan& plan, Sample sample,
                      const sorting::KeyRange& keys, const Target& target, unsigned depth,
                      Read read);
  Result<Stored> sort_again(NumberBucket& bucket, SpillSet& spills, const Target& target,
                            unsigned depth);

  Status use_arena(const NumberPlan& plan);

  Context& context_;
  uint64_t memory_bytes_;
  std::vector<std::string> directories_;
  std::optional<BlockArena> arena_;
  std::unique_ptr<OrderedOutput> ordered_;
  NumberSortStats stats_;
};

}  // namespace penstock::external
