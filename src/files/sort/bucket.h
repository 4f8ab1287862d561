#pragma once

// Types that the sorts of numbers and of strings share: a bucket's identity, the target of its
// sorted items, and the account of the stored ones.

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

// File and offset at which sorted items are stored. A file that is not regular takes them in order.
struct Target {
  const io::File* file = nullptr;
  uint64_t offset = 0;
};

// Whether the output must be written from front to back: to a pipe, or if repeats are dropped,
// which leaves the offsets unknown.
inline bool in_order(const SortOptions& options, const Target& target) {
  return options.unique || !target.file->seekable();
}

struct Stored {
  uint64_t bytes = 0;
  uint64_t items = 0;
  ItemSum sum = {};  // checksum of the sorted items, including dropped repeats

  Stored& operator+=(const Stored& other) {
    bytes += other.bytes;
    items += other.items;
    sum += other.sum;
    return *this;
  }
};

}  // namespace penstock::external
