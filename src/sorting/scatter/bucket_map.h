#pragma once

// The map from keys to buckets. A map is made once and read by the kernels; `kind` says which of
// its fields are used.
//
// By range: the keys between two bounds, cut into any number of parts by one multiplication (a
// number of buckets that is no power of two lets nearly every leaf of a sort fit its network). The
// parts are equally wide except for a hundredth and two places (by_range() explains places). By
// splitters: a branch-free search, for keys of uneven density. Both keep the order of keys; maps by
// bits and by hash do not.

#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::scatter {

// Least number of nodes of a tree (see search_kernel.h).
inline constexpr size_t search_nodes_min = 32;

// A range of keys; both bounds are inclusive.
struct KeyRange {
  uint64_t low = 0;
  uint64_t high = ~uint64_t{0};
};

// The range [base, base + 2^bits), cut off at the greatest key.
KeyRange keys_from(uint64_t base, unsigned bits);

struct BucketMap {
  enum class Kind : uint8_t { range, splitters, low_bits, top_bits, bit_field, hash, table };
  Kind kind = Kind::range;
  uint32_t buckets = 1;  // by bits and by hash: a power of two

  KeyRange range;           // range: keys outside go to the outermost buckets
  uint64_t zero = 0;        // range: where places begin to count, range.low or one less; bit_field:
                            // subtracted first; hash: the seed
  unsigned shift = 0;       // range: low bits that are dropped; otherwise the bits below the number
  uint64_t multiplier = 0;  // range: below 2^32

  // Splitters. The children of node i are 2 i and 2 i + 1.
  std::vector<uint64_t> tree;
  std::vector<uint32_t> tree_32;    // tree for keys of 32 bits
  uint32_t last_32 = 0;             // the greatest bucket that a key of 32 bits can reach
  std::vector<uint64_t> splitters;  // sorted; bucket i begins with splitters[i - 1]
  unsigned tree_levels = 0;

  std::vector<uint16_t> table;  // bucket of each key of 8 or 16 bits, as it is in memory

  static BucketMap by_range(const KeyRange& range, uint32_t buckets_max);
  // REQUIRES: sorted. Two equal splitters have an empty bucket between them.
  static BucketMap by_splitters(std::vector<uint64_t> splitters);

  bool searches() const { return kind == Kind::splitters; }
  uint32_t operator()(uint64_t key) const;
  // The range of keys that belong to this bucket. REQUIRES: by range or by splitters.
  KeyRange keys_of(uint32_t bucket) const;
};

// The least key of a bucket other than the first, for a map by range.
inline uint64_t first_key_of(const BucketMap& map, uint32_t bucket) {
  uint64_t place = ((uint64_t{bucket} << 32) + map.multiplier - 1) / map.multiplier;
  return map.zero + (place << map.shift);
}

// A hash that spreads any keys in its leading bits: murmur3's finalizer without its last step,
// which does not reach those. Inlined by force: see key_order.h.
[[gnu::always_inline]] inline uint64_t hash_of(uint64_t key, uint64_t seed) {
  key ^= seed;
  key ^= key >> 33;
  key *= 0xff51afd7ed558ccdu;
  key ^= key >> 33;
  return key * 0xc4ceb9fe1a85ec53u;
}

}  // namespace penstock::scatter
