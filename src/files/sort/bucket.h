#pragma once

// What both sorts, of numbers and of strings, say of a bucket: which it is, where it goes, and what
// was stored.

#include <compare>
#include <cstdint>

#include "files/sort/external_sort.h"
#include "files/sort/item_sum.h"
#include "io/file.h"

namespace penstock::external {

// A bucket by the split that made it. The input is bucket 0 of no split.
struct BucketId {
  static constexpr uint32_t no_split = ~uint32_t{0};
  uint32_t split = no_split;
  uint32_t bucket = 0;

  auto operator<=>(const BucketId&) const = default;
};

// Where sorted items go. Outputs that are no regular file take them in order.
struct Target {
  const io::File* file = nullptr;
  uint64_t offset = 0;
};

// Whether output must be written from front to back: to a pipe, and where items are dropped so that
// places are not known.
inline bool in_order(const SortOptions& options, const Target& target) {
  return options.unique || !target.file->seekable();
}

struct Stored {
  uint64_t bytes = 0;
  uint64_t items = 0;
  ItemSum sum = {};  // of what was sorted for it: repeats that were dropped count, too

  Stored& operator+=(const Stored& other) {
    bytes += other.bytes;
    items += other.items;
    sum += other.sum;
    return *this;
  }
};

}  // namespace penstock::external
