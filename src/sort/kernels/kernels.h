#pragma once

// The inner loops of the sort beside those of scattering (scatter/kernels.h), compiled once per
// instruction set (kernels_impl.h); kernels() chooses.

#include <cstddef>
#include <cstdint>

#include "scatter/bucket_map.h"
#include "scatter/key_order.h"
#include "sort/item.h"
#include "sort/item_mix.h"

namespace penstock::sorting {

// Keys to be counted instead of moved, as they lie in memory: each in the place where it belongs,
// or nowhere (heavy_keys.cc).
struct HeavyKeys {
  static constexpr uint32_t places = 4096;
  alignas(64) uint64_t keys[places];

  // Inlined by force, as is everything that files for different processors share.
  [[gnu::always_inline]] static uint32_t place_of(uint64_t key) {
    const auto folded = static_cast<uint32_t>(key + (key >> 32));  // 0 and ~0 differ
    return static_cast<uint32_t>(uint64_t{folded} * 0x9e3779b1u >> 20) % places;
  }
};
// How many items were found in each place.
struct HeavyTally {
  // Several counters a place, taken in turn: a store to one need not wait for the last.
  static constexpr uint32_t turns = 4;
  alignas(64) uint64_t counts[(HeavyKeys::places + 1) * turns] = {};  // the last place: not found

  uint64_t count_of(uint32_t place) const {
    uint64_t count = 0;
    for (uint32_t turn = 0; turn < turns; ++turn) count += counts[place * turns + turn];
    return count;
  }
};

template <class T>
struct Kernels {
  void (*encode)(const T* from, size_t count, const KeyOrder& order, T* to);
  void (*decode)(T* items, size_t count, const KeyOrder& order);
  // Widens nothing: the least and the greatest encoded key of items that are not encoded yet.
  KeyRange (*range_of)(const T* items, size_t count, const KeyOrder& order);
  // How many of the first items are in order (at least one, if there is one).
  size_t (*ascending)(const T* items, size_t count, const KeyOrder& order);
  void (*reverse)(T* items, size_t count);
  // Counts the items whose keys are heavy, copies the others to the front of `out`, in order, and
  // returns how many they are. REQUIRES: T is a number; in == out, or the two do not overlap.
  size_t (*take_out_heavy)(const T* in, size_t count, const HeavyKeys& heavy, HeavyTally& tally,
                           T* out);
  // Adds all items to the sum.
  void (*add_to_sum)(const T* items, size_t count, ItemSum& sum);
};

// For uint32_t, uint64_t, KeyValue, Key128.
template <class T>
const Kernels<T>& kernels();

// Mixes all bytes of a text, and their number (item_mix.h).
using MixOfBytes = uint64_t (*)(const char* bytes, size_t count);
extern const MixOfBytes mix_of_bytes;

}  // namespace penstock::sorting
