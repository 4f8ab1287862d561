#pragma once

// Sorts one bucket that fits in memory: load() reads it (and does the first level of the sort while
// reading), store() gives it out in order while that is written.

#include <algorithm>
#include <compare>
#include <memory>
#include <vector>

#include "external/context.h"
#include "external/input.h"
#include "external/memory_plan.h"
#include "stream/file_writer.h"

namespace penstock::external {

// A bucket by the split that made it. The input is bucket 0 of no split.
struct BucketId {
  static constexpr uint32_t no_split = ~uint32_t{0};
  uint32_t split = no_split;
  uint32_t bucket = 0;

  auto operator<=>(const BucketId&) const = default;
};

// A bucket of records or lines: pieces of files, or blocks of temporaries.
struct Bucket {
  std::vector<Piece> pieces = {};
  uint64_t bytes = 0;
  uint64_t items = 0;
  bool constant = false;               // all keys are equal
  std::vector<uint32_t> spilled = {};  // the blocks' numbers, in the order of the input
  uint32_t spill = 0;                  // which of the spills
  BucketId id = {};                    // where the sort can be resumed

  // Where it lies in temporaries, to be read in blocks of at most so many bytes (a power of two).
  Piece spilled_piece(const SpillSet& spills, size_t block_bytes_most) const {
    const size_t extent_bytes = std::min(spills.block_bytes(), block_bytes_most);
    return {.bytes = bytes,
            .extents = spills.extents(spill, spilled, bytes, extent_bytes),
            .extent_bytes = extent_bytes};
  }
};

// Where sorted items go. Outputs that are no regular file take them in order.
struct Target {
  const file::File* file = nullptr;
  uint64_t offset = 0;
};

// Whether output must be written from front to back: to a pipe, and where items are dropped so that
// places are not known.
bool in_order(const SortOptions& options, const Target& target);

struct Stored {
  uint64_t bytes = 0;
  uint64_t items = 0;
};

// Thread safety: one thread uses a sorter at a time.
class BucketSorter {
 public:
  static Result<std::unique_ptr<BucketSorter>> open(Context& context, const SorterPlan& plan);
  virtual ~BucketSorter() = default;

  // REQUIRES: fits(plan, bucket.bytes, bucket.items).
  virtual Status load(const Bucket& bucket) = 0;
  // Hands everything to the writer; finish() waits until it is written.
  virtual Result<Stored> store(const Target& target) = 0;
  virtual Status finish() = 0;
};

}  // namespace penstock::external
