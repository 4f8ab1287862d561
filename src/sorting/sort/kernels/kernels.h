#pragma once

// The inner loops of the sort beside those of scattering (sorting/scatter/kernels.h), compiled once
// per instruction set (kernels_impl.h); kernels() chooses.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "sorting/scatter/bucket_map.h"
#include "sorting/scatter/key_order.h"
#include "sorting/sort/item.h"
#include "sorting/sort/item_mix.h"

namespace penstock::sorting {

// Keys to be counted instead of moved, as they are in memory: each in the place where it belongs,
// or nowhere (heavy_keys.cc).
struct HeavyKeys {
  static constexpr uint32_t places = 4096;
  alignas(64) uint64_t keys[places];
  // Whether one key makes up much of the input by itself; it is compared first.
  bool one_leads = false;
  uint64_t leader = 0;

  // A key's halves are multiplied by a number each: if they were added before the multiplication,
  // keys that differ in one bit of either half would collide. Each bit of a half affects them.
  static constexpr uint32_t lower_factor = 0x9e3779b1u;
  static constexpr uint32_t upper_factor = 0x85ebca6bu;
  static constexpr uint32_t place_shift = 26;
  // Inlined by force, like everything that files for different processors share.
  [[gnu::always_inline]] static uint32_t place_of(uint64_t key) {
    const uint64_t product = (key & 0xffffffffu) * lower_factor + (key >> 32) * upper_factor;
    return static_cast<uint32_t>(product >> place_shift) % places;
  }
};
// Number of items found in each place.
struct HeavyTally {
  // Several counters a place, taken in turn: a store to one need not wait for the last.
  static constexpr uint32_t turns = 4;
  static constexpr uint32_t nowhere = HeavyKeys::places;  // place of keys that are not found
  alignas(64) uint64_t counts[turns][HeavyKeys::places + 1] = {};

  uint64_t count_of(uint32_t place) const {
    uint64_t count = 0;
    for (const auto& counts_of_turn : counts) count += counts_of_turn[place];
    return count;
  }
};

template <class T>
struct Kernels {
  void (*encode)(const T* from, size_t count, const KeyOrder& order, T* to);
  void (*decode)(T* items, size_t count, const KeyOrder& order);
  // The least and the greatest encoded key of items that are not encoded yet.
  KeyRange (*range_of)(const T* items, size_t count, const KeyOrder& order);
  // Returns how many of the first items are in order (at least one, if there is one).
  size_t (*ascending)(const T* items, size_t count, const KeyOrder& order);
  void (*reverse)(T* items, size_t count);
  // Counts the items whose keys are heavy, copies the others to the front of `out`, in order, and
  // returns their number. REQUIRES: T is a number; in == out, or the two do not overlap.
  size_t (*take_out_heavy)(const T* in, size_t count, const HeavyKeys& heavy, HeavyTally& tally,
                           T* out);
  // Stores the item `count` times, past the caches: others need finish_stores() first.
  void (*fill)(T* out, size_t count, const T& item);
  // Adds all items to the sum.
  void (*add_to_sum)(const T* items, size_t count, ItemSum& sum);
};

// For uint32_t, uint64_t, KeyValue, Key128.
template <class T>
const Kernels<T>& kernels();

// Mixes all bytes of a text, and their number (item_mix.h).
using MixOfBytes = uint64_t (*)(const char* bytes, size_t count);
extern const MixOfBytes mix_of_bytes;

// The bytes of keys in a window, which begins at one of their bytes (strings/key_digits.h).
struct SeenBytes {
  static constexpr size_t window_max = 32;

  // Whether a key has that byte at that place. (A 0 may stand for an end.)
  alignas(64) uint8_t at[window_max][256] = {};
  // Lengths of the keys, not of the window.
  size_t bytes_min = ~size_t{0};
  size_t bytes_max = 0;
  bool zeros = false;  // a key has a byte 0 in the window
};
// Adds the bytes [from, from + window) of keys. REQUIRES: window <= window_max.
using LookAtKeys = void (*)(std::span<const std::string_view> keys, size_t from, size_t window,
                            SeenBytes& seen);
extern const LookAtKeys look_at_keys;

// The value of each byte at a place. (Places at powers of two would share cache sets.)
struct WorthOfBytes {
  uint64_t of[256 + 8];
};
// Computes for each key the sum of the values of its bytes [from, from + window), each at its
// place; behind a key's end there are zeros. REQUIRES: window <= window_max.
using NumberKeys = void (*)(std::span<const std::string_view> keys, size_t from, size_t window,
                            const WorthOfBytes* worth, uint64_t* numbers);
extern const NumberKeys number_keys;

}  // namespace penstock::sorting
