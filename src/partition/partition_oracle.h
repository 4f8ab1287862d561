#pragma once

// For the tests of both partitions: items, and the bucket that each belongs to, as
// penstock/partition.h says it, with no regard to speed.

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <variant>

#include "penstock/partition.h"

namespace penstock {

template <class T>
T item_of(uint64_t key, uint64_t index) {
  if constexpr (std::is_same_v<T, KeyValue32>) {
    return {static_cast<uint32_t>(key), static_cast<uint32_t>(index)};
  } else if constexpr (std::is_same_v<T, KeyValue64>) {
    return {key, index};
  } else {
    return static_cast<T>(key);
  }
}
template <class T>
uint64_t key_of(const T& item) {
  if constexpr (requires { item.key; }) {
    return item.key;
  } else {
    return item;
  }
}
template <class T>
bool before(const T& a, const T& b) {
  if constexpr (requires { a.value; }) {
    return std::tie(a.key, a.value) < std::tie(b.key, b.value);
  } else {
    return a < b;
  }
}
template <class T>
constexpr unsigned key_bits = sizeof(T) == 4 || std::is_same_v<T, KeyValue32> ? 32 : 64;

template <class T>
uint32_t bucket_of(const PartitionBy& by, const T& item) {
  const uint64_t key = key_of(item);
  if (const auto* low = std::get_if<ByLowBits>(&by))
    return static_cast<uint32_t>(key % (uint64_t{1} << low->bits));
  if (const auto* high = std::get_if<ByHighBits>(&by)) {
    const unsigned width = high->key_bits == 0 ? key_bits<T> : high->key_bits;
    uint64_t place = key - high->base;
    if (width < 64) place %= uint64_t{1} << width;
    return high->bits == 0 ? 0 : static_cast<uint32_t>(place >> (width - high->bits));
  }
  if (const auto* hash = std::get_if<ByHash>(&by)) {
    uint64_t x = key ^ hash->seed;
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
    return hash->bits == 0 ? 0 : static_cast<uint32_t>(x >> (64 - hash->bits));
  }
  if (const auto* range = std::get_if<ByRange>(&by)) {
    const uint64_t last = std::min(range->last, ~uint64_t{0} >> (64 - key_bits<T>));
    const auto place = static_cast<__uint128_t>(std::clamp(key, range->first, last) - range->first);
    const auto width = static_cast<__uint128_t>(last - range->first) + 1;
    return static_cast<uint32_t>(place * range->buckets / width);
  }
  const auto& splitters = std::get<BySplitters>(by).splitters;
  return static_cast<uint32_t>(std::upper_bound(splitters.begin(), splitters.end(), key) -
                               splitters.begin());
}

}  // namespace penstock
