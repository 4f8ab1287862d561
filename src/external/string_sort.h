#pragma once

// The sort of records or lines that lie in files: split, sort the buckets, and again where one is
// too large.

#include <string>
#include <vector>

#include "external/block_arena.h"
#include "external/bucket_plan.h"
#include "external/resume.h"
#include "external/sample.h"
#include "external/string_split.h"

namespace penstock::external {

// What a run did.
struct StringSortStats {
  uint32_t levels = 0;  // of splits
  uint64_t kept_bytes = 0;
  uint64_t spilled_bytes = 0;
  uint64_t stored_bytes = 0;    // of these, on the disk
  size_t read_block_bytes = 0;  // of the input
  ItemSum read;                 // by the first split
};

// Thread safety: one thread.
class StringSort {
 public:
  // `memory_bytes`: what blocks and buffers may take. REQUIRES: the format is not numeric.
  // `compresses`: temporaries, where blocks shrink. `resume`: what there is of it is taken, and
  // what is done is written down there (and nothing is compressed); or nullptr.
  StringSort(Context& context, uint64_t memory_bytes, std::vector<std::string> directories,
             bool compresses = false, Resume* resume = nullptr);

  // `bytes`: expected; `known`: for certain. The sample says how long items are.
  Result<Stored> run(const std::vector<Piece>& pieces, uint64_t bytes, bool known, Sample sample,
                     const Target& target);
  const StringSortStats& stats() const { return stats_; }

 private:
  // What is sorted when its pieces are read: the input, or a bucket, whose temporaries may go then.
  struct Origin {
    BucketId id = {};
    SpillSet* spills = nullptr;  // of a bucket
    uint32_t spill = 0;
    size_t block_bytes = 0;  // of that one's blocks

    void release() {
      if (spills != nullptr) spills->release(spill);
      spills = nullptr;
    }
  };
  Result<Stored> sort_pieces(const std::vector<Piece>& pieces, uint64_t bytes, bool known,
                             Sample sample, const Target& target, unsigned depth, Origin& origin,
                             Resume* resume);
  Result<Split> split(const std::vector<Piece>& pieces, const BucketPlan& plan, Sample sample,
                      unsigned depth, BucketId id, Resume* resume);
  Result<Stored> sort_buckets(Split& split, const BucketPlan& plan, const Target& target,
                              unsigned depth, Resume* resume);
  Result<Stored> sort_again(SplitBucket& bucket, SpillSet& spills, const Target& target,
                            unsigned depth, Resume* resume);
  Result<file::File> inflate(const SplitBucket& bucket, const SpillSet& spills);

  Context& context_;
  uint64_t memory_bytes_;
  std::vector<std::string> directories_;
  const bool compresses_;
  Resume* resume_;
  BlockArena arena_;
  StringSortStats stats_;
};

}  // namespace penstock::external
