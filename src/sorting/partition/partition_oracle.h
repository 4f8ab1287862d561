#pragma once

// An oracle for the tests of both partitions: items, and the bucket of each as penstock/partition.h
// defines it, without regard to speed.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/random.h"
#include "penstock/partition.h"

namespace penstock {

// The unsigned number with as many bits.
template <class T>
using Bits =
    std::conditional_t<sizeof(T) == 1, uint8_t,
                       std::conditional_t<sizeof(T) == 2, uint16_t,
                                          std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;

template <class T>
T item_of(uint64_t key, uint64_t index) {
  if constexpr (std::is_same_v<T, KeyValue32>) {
    return {static_cast<uint32_t>(key), static_cast<uint32_t>(index)};
  } else if constexpr (std::is_same_v<T, KeyValue64>) {
    return {key, index};
  } else if constexpr (std::is_same_v<T, Key128>) {
    return {mix64(key), key};
  } else if constexpr (std::is_floating_point_v<T>) {
    return std::bit_cast<T>(static_cast<Bits<T>>(key));  // infinities and NaNs, too
  } else {
    return static_cast<T>(key);
  }
}
// Distributions of keys.
enum class Keys { uniform, few, equal, ends, skewed };

template <class T>
std::vector<T> make_items(uint64_t count, Keys keys, uint64_t seed) {
  Random random(seed);
  std::vector<T> items(count);
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t key = random.next();
    if (keys == Keys::few) key = mix64(key % 5);
    if (keys == Keys::equal) key = 0x1234567890abcdef;
    if (keys == Keys::ends) key = random.below(2) == 0 ? key % 3 : ~(key % 3);
    if (keys == Keys::skewed) key >>= random.below(64);
    items[i] = item_of<T>(key, i);
  }
  return items;
}

// The bits of a key as in memory; for 128 bits, the last 64.
template <class T>
uint64_t bits_in(const T& item) {
  if constexpr (requires { item.key; }) {
    return item.key;
  } else if constexpr (std::is_same_v<T, Key128>) {
    return item.low;
  } else {
    return std::bit_cast<Bits<T>>(item);
  }
}
template <class T>
constexpr unsigned key_bits = std::is_same_v<T, KeyValue32> ? 32
                              : sizeof(T) >= 8              ? 64
                                                            : 8 * sizeof(T);

// The rank of a key in the order of its type.
template <class T>
uint64_t rank_in(const T& item) {
  if constexpr (std::is_same_v<T, Key128>) {
    return item.high;
  } else if constexpr (std::is_floating_point_v<T>) {
    // By counting: -inf ... -0, +0 ... inf, NaNs without a sign, those with one (the least last).
    constexpr uint64_t sign = uint64_t{1} << (key_bits<T> - 1);
    const uint64_t magnitude = bits_in(item) % sign;
    const uint64_t infinity = bits_in(std::numeric_limits<T>::infinity());
    if (bits_in(item) < sign) return infinity + 1 + magnitude;
    return magnitude <= infinity ? infinity - magnitude : infinity + 2 * sign - magnitude;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<uint64_t>(int64_t{item}) -
           static_cast<uint64_t>(int64_t{std::numeric_limits<T>::min()});
  } else {
    return bits_in(item);
  }
}
// Any order by all bytes of an item.
template <class T>
bool before(const T& a, const T& b) {
  return std::memcmp(&a, &b, sizeof(T)) < 0;
}

template <class T>
uint32_t bucket_of(const PartitionBy& by, const T& item) {
  const uint64_t bits = bits_in(item);
  const uint64_t key = rank_in(item);
  if (const auto* low = std::get_if<ByLowBits>(&by))
    return static_cast<uint32_t>(bits % (uint64_t{1} << low->bits));
  if (const auto* high = std::get_if<ByHighBits>(&by)) {
    const unsigned width = high->key_bits == 0 ? key_bits<T> : high->key_bits;
    uint64_t place = key - high->base;
    if (width < 64) place %= uint64_t{1} << width;
    return high->bits == 0 ? 0 : static_cast<uint32_t>(place >> (width - high->bits));
  }
  if (const auto* hash = std::get_if<ByHash>(&by)) {
    uint64_t x = bits ^ hash->seed;
    if constexpr (std::is_same_v<T, Key128>) x ^= item.high * 0x9e3779b97f4a7c15u;
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
