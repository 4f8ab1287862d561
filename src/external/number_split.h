#pragma once

// The first phase of a sort of numbers: every item goes to the bucket of its key range. Buckets
// grow in blocks of the arena; when these become few, the last buckets go to temporaries.

#include <memory>
#include <vector>

#include "external/block_arena.h"
#include "external/bucket_sorter.h"
#include "external/number_plan.h"
#include "external/sample.h"
#include "external/spill.h"
#include "sort/bucket_map.h"

namespace penstock::external {

// A bucket between the phases. Numbers are stored by their encoded keys.
//
// Invariant: all of it is in `extents` (blocks of the plan's size, in the order of the input, the
// last one with what is left), or in `kept`, or nowhere: then it is `constant`, and its items are
// its one key.
struct NumberBucket {
  sorting::KeyRange keys;
  uint64_t bytes = 0;
  bool constant = false;
  std::vector<stream::Extent> extents = {};
  std::vector<uint32_t> kept = {};  // blocks of the arena
  uint32_t spill = 0;               // which of the spills holds the extents
};

// The temporaries of a split: several files, each of a range of buckets, so that space is given
// back when these have been read. (To give back a part of a file waits for all requests on it.)
// Thread safety: as a Spill for placing; keep() and release() by one thread at a time.
class SpillSet {
 public:
  Status open(const std::vector<std::string>& directories, uint32_t count);

  bool empty() const { return parts_.empty(); }
  // The part for a bucket of so many.
  uint32_t part_of(uint32_t bucket, uint32_t buckets) const;
  Spill& part(uint32_t part) { return *parts_[part].spill; }
  // A part is closed, and its space is free, when all who keep it have released it.
  void keep(uint32_t part) { ++parts_[part].kept; }
  void release(uint32_t part);
  const char* name() const { return name_.c_str(); }

 private:
  struct Part {
    std::unique_ptr<Spill> spill;
    uint64_t kept = 0;
  };
  std::string name_;
  std::vector<Part> parts_;
};

struct SplitResult {
  // In the order of the output; those that are kept come first, and empty ones are left out. Each
  // that has extents keeps its part of the spills.
  std::vector<NumberBucket> buckets;
  SpillSet spills;
  uint64_t bytes = 0;
  uint64_t spilled_bytes = 0;
  uint64_t spill_writes = 0;
};

// `keys`: what all keys lie within. `directories`: of the temporaries.
Result<SplitResult> split_numbers(Context& context, const std::vector<Piece>& pieces, Sample sample,
                                  const sorting::KeyRange& keys, const NumberPlan& plan,
                                  const std::vector<std::string>& directories, BlockArena& arena);

}  // namespace penstock::external
