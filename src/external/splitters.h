#pragma once

// The keys at which a distribution cuts, and which bucket a key belongs to: the number of splitters
// that are not greater.
//
// A key that takes more than a bucket's share of the sample gets a bucket of its own: it and its
// successor are both splitters, and the bucket between them is `constant`: all of its keys are
// equal, so that it is never sorted and may be of any size.
//
// Keys are strings of bytes; numbers are classified by their encoded keys alone (as 8 bytes
// big-endian, which order alike).

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::external {

class NumberSplitters {
 public:
  NumberSplitters() = default;
  // `sample` need not be sorted. At most `buckets_max` buckets.
  NumberSplitters(std::vector<uint64_t> sample, uint32_t buckets_max);

  uint32_t buckets() const { return static_cast<uint32_t>(bounds_.size()) + 1; }
  bool constant(uint32_t bucket) const { return key_min(bucket) == key_max(bucket); }
  uint64_t key_min(uint32_t bucket) const { return bucket == 0 ? 0 : bounds_[bucket - 1]; }
  uint64_t key_max(uint32_t bucket) const {
    return bucket == bounds_.size() ? ~uint64_t{0} : bounds_[bucket] - 1;
  }
  uint32_t classify(uint64_t key) const {
    // The range of the bounds is cut into cells; most hold no bound, so that all their keys are in
    // one bucket.
    uint64_t distance = key < base_ ? 0 : key - base_;
    const Cell& cell = cells_[std::min<uint64_t>(distance >> shift_, cells_.size() - 1)];
    if (cell.first == cell.last) [[likely]]
      return cell.first;
    auto above = std::upper_bound(bounds_.begin() + cell.first, bounds_.begin() + cell.last, key);
    return static_cast<uint32_t>(above - bounds_.begin());
  }

 private:
  // Keys of the cell are not below bounds [0, first), and below bounds [last, ...).
  struct Cell {
    uint32_t first, last;
  };

  std::vector<uint64_t> bounds_;
  std::vector<Cell> cells_;
  uint64_t base_ = 0;
  unsigned shift_ = 0;
};

class StringSplitters {
 public:
  StringSplitters() = default;
  StringSplitters(std::vector<std::string> sample, uint32_t buckets_max);

  uint32_t buckets() const { return static_cast<uint32_t>(bounds_.size()) + 1; }
  bool constant(uint32_t bucket) const { return constant_[bucket]; }
  uint32_t classify(std::string_view key) const;

 private:
  std::vector<std::string> bounds_;
  std::vector<uint64_t> prefixes_;
  std::vector<bool> constant_;
};

}  // namespace penstock::external
