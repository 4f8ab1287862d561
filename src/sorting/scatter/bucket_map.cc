#include "sorting/scatter/bucket_map.h"

#include <algorithm>
#include <bit>

namespace penstock::scatter {
namespace {

// Leading bits of a key's position in the range that count: its place. The multiplier of `buckets`
// buckets is rounded down from buckets * 2^32 / places, which moves the last bound up by places /
// 2^32 of a bucket; and a bound lies between two places. With 2^32 places the first error would be
// a whole bucket; with 2^24 it is less than a hundredth, and 2^14 buckets have 2^10 places each.
constexpr unsigned place_bits = 24;

}  // namespace

KeyRange keys_from(uint64_t base, unsigned bits) {
  uint64_t width = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  return {base, base > ~width ? ~uint64_t{0} : base + width};
}

BucketMap BucketMap::by_range(const KeyRange& range, uint32_t buckets_max) {
  BucketMap map;
  map.range = range;
  uint64_t width = range.high - range.low;  // one less than the number of keys
  auto bits = static_cast<unsigned>(std::bit_width(width));
  map.shift = bits > place_bits ? bits - place_bits : 0;
  uint64_t places = (width >> map.shift) + 1;
  map.buckets = static_cast<uint32_t>(std::min<uint64_t>(buckets_max, places));
  map.zero = range.low;
  map.multiplier = (uint64_t{map.buckets} << 32) / places;
  if (map.multiplier >> 32 == 0) return map;
  // A bucket for each key needs 2^32, which does not fit. Places that count from one make up for
  // it, because (place + 1) * (2^32 - 1) / 2^32 is place.
  map.multiplier = (uint64_t{1} << 32) - 1;
  --map.zero;
  return map;
}

BucketMap BucketMap::by_splitters(std::vector<uint64_t> splitters) {
  BucketMap map;
  map.kind = Kind::splitters;
  const size_t count = splitters.size();
  map.buckets = static_cast<uint32_t>(count) + 1;
  map.tree_levels = static_cast<unsigned>(std::bit_width(count));
  const size_t nodes = std::max(size_t{1} << map.tree_levels, search_nodes_min);
  constexpr uint64_t key_max_32 = ~uint32_t{0};
  map.tree.assign(nodes, ~uint64_t{0});
  map.tree_32.assign(nodes, ~uint32_t{0});
  map.last_32 = static_cast<uint32_t>(
      std::upper_bound(splitters.begin(), splitters.end(), key_max_32) - splitters.begin());
  for (unsigned level = 0; level < map.tree_levels; ++level) {
    for (size_t i = 0; i < size_t{1} << level; ++i) {
      // Rank among all nodes, in the order of their keys, of this level's node i.
      const size_t rank = ((2 * i + 1) << (map.tree_levels - level - 1)) - 1;
      if (rank >= count) continue;
      const size_t node = (size_t{1} << level) + i;
      map.tree[node] = splitters[rank];
      map.tree_32[node] = static_cast<uint32_t>(std::min(splitters[rank], key_max_32));
    }
  }
  map.splitters = std::move(splitters);
  return map;
}

uint32_t BucketMap::operator()(uint64_t key) const {
  switch (kind) {
    case Kind::range:
      return static_cast<uint32_t>(
          ((std::clamp(key, range.low, range.high) - zero) >> shift) * multiplier >> 32);
    case Kind::splitters:
      return static_cast<uint32_t>(std::upper_bound(splitters.begin(), splitters.end(), key) -
                                   splitters.begin());
    case Kind::low_bits:
      return static_cast<uint32_t>(key) & (buckets - 1);
    case Kind::top_bits:
    case Kind::bit_field:
      return static_cast<uint32_t>((key - zero) >> shift) & (buckets - 1);
    case Kind::hash:
      return static_cast<uint32_t>(hash_of(key, zero) >> shift);
    case Kind::table:
      return table[key];
  }
  return 0;
}

KeyRange BucketMap::keys_of(uint32_t bucket) const {
  KeyRange keys;
  if (searches()) {
    if (bucket != 0) keys.low = splitters[bucket - 1];
    if (bucket + 1 != buckets) keys.high = splitters[bucket] - 1;
    return keys;
  }
  if (bucket != 0) keys.low = first_key_of(*this, bucket);
  if (bucket + 1 != buckets) keys.high = first_key_of(*this, bucket + 1) - 1;
  return keys;
}

}  // namespace penstock::scatter
