#pragma once

// Which bucket a key belongs to: monotone functions of the encoded key.
//
// By range: the keys between two bounds, cut into any number of equally wide parts by one
// multiplication (a number of buckets that is no power of two lets nearly every leaf fit its
// network). By splitters: a branch-free search, for keys whose density defeats the first.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::sorting {

// A tree has so many nodes at least (see partition/search_kernel.h).
inline constexpr size_t search_nodes_min = 32;

// Both inclusive.
struct KeyRange {
  uint64_t low = 0;
  uint64_t high = ~uint64_t{0};
};

// [base, base + 2^bits), as far as there are keys.
KeyRange keys_from(uint64_t base, unsigned bits);

struct BucketMap {
  uint32_t buckets = 1;
  // By range.
  KeyRange range;           // keys outside go to the outermost buckets
  uint64_t zero = 0;        // where places begin to count: range.low, or one less
  unsigned shift = 0;       // makes the width of the range fit 32 bits
  uint64_t multiplier = 0;  // below 2^32
  // By splitters: the children of node i are 2 i and 2 i + 1; empty: by range.
  std::vector<uint64_t> tree;
  std::vector<uint64_t> splitters;  // sorted, distinct; bucket i begins with splitters[i - 1]
  unsigned tree_levels = 0;

  static BucketMap by_range(const KeyRange& range, uint32_t buckets_max);
  static BucketMap by_splitters(std::vector<uint64_t> splitters);

  bool searches() const { return !tree.empty(); }
  uint32_t operator()(uint64_t key) const;
  // The keys that this bucket may hold.
  KeyRange keys_of(uint32_t bucket) const;
};

// The least key of a bucket but the first, of a map by range.
inline uint64_t first_key_of(const BucketMap& map, uint32_t bucket) {
  uint64_t place = ((uint64_t{bucket} << 32) + map.multiplier - 1) / map.multiplier;
  return map.zero + (place << map.shift);
}

}  // namespace penstock::sorting
