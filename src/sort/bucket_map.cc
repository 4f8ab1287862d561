#include "sort/bucket_map.h"

#include <algorithm>
#include <bit>

namespace penstock::sorting {
KeyRange keys_from(uint64_t base, unsigned bits) {
  uint64_t width = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  return {base, base > ~width ? ~uint64_t{0} : base + width};
}

BucketMap BucketMap::by_range(const KeyRange& range, uint32_t buckets_max) {
  BucketMap map;
  map.range = range;
  uint64_t width = range.high - range.low;  // one less than the number of keys
  auto bits = static_cast<unsigned>(std::bit_width(width));
  map.shift = bits > 32 ? bits - 32 : 0;
  uint64_t places = (width >> map.shift) + 1;
  map.buckets = static_cast<uint32_t>(std::min<uint64_t>(buckets_max, places));
  map.zero = range.low;
  map.multiplier = (uint64_t{map.buckets} << 32) / places;
  if (map.multiplier >> 32 == 0) return map;
  // A bucket for each key: 2^32, which does not fit. Places that count from one make up for it, as
  // (place + 1) * (2^32 - 1) / 2^32 is place.
  map.multiplier = (uint64_t{1} << 32) - 1;
  --map.zero;
  return map;
}

BucketMap BucketMap::by_splitters(std::vector<uint64_t> splitters) {
  BucketMap map;
  size_t count = splitters.size();
  map.buckets = static_cast<uint32_t>(count) + 1;
  map.tree_levels = static_cast<unsigned>(std::bit_width(count));
  map.tree.assign(std::max(size_t{1} << map.tree_levels, search_nodes_min), ~uint64_t{0});
  for (unsigned level = 0; level < map.tree_levels; ++level) {
    for (size_t i = 0; i < size_t{1} << level; ++i) {
      size_t rank = ((2 * i + 1) << (map.tree_levels - level - 1)) - 1;
      if (rank < count) map.tree[(size_t{1} << level) + i] = splitters[rank];
    }
  }
  map.splitters = std::move(splitters);
  return map;
}

uint32_t BucketMap::operator()(uint64_t key) const {
  if (searches()) {
    return static_cast<uint32_t>(std::upper_bound(splitters.begin(), splitters.end(), key) -
                                 splitters.begin());
  }
  uint64_t place = std::clamp(key, range.low, range.high) - zero;
  return static_cast<uint32_t>((place >> shift) * multiplier >> 32);
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

}  // namespace penstock::sorting
