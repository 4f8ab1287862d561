#pragma once

// Sums of items that do not depend on their order: equal sums say that the same items were there.
//
// To add up the items themselves is the naive way. It sees each change of one item, and each item
// that took the place of another, but is blind to what moves between two of them: halves that
// changed places, a bit that went from one to the other. So squares are added up beside it. Of what
// is squared only 32 bits are taken, which all words of the item have a part in, because a product
// of 32 by 32 bits is what vectors multiply at once; what moves between two items changes both
// their squares, and by different amounts unless the two have just changed places.
//
// Records and lines are mixed to a word each first, whose bits say nothing about theirs (mix_of):
// the sum of these alone will do.
//
// Everything is inlined by force: see key_order.h.

#include <cstdint>

#include "sorting/sort/item.h"

namespace penstock::sorting {

struct ItemSum {
  uint64_t items = 0;
  uint64_t words = 0;    // modulo 2^64
  uint64_t squares = 0;  // modulo 2^64

  ItemSum& operator+=(const ItemSum& other) {
    items += other.items;
    words += other.words;
    squares += other.squares;
    return *this;
  }
  ItemSum operator-(const ItemSum& other) const {
    return {items - other.items, words - other.words, squares - other.squares};
  }
  // So many times the same.
  ItemSum operator*(uint64_t times) const {
    return {items * times, words * times, squares * times};
  }
  bool operator==(const ItemSum&) const = default;
};

inline constexpr uint64_t mix_factor = 0xd6e8feb86659fd93u;
inline constexpr uint64_t mix_offset = 0x9e3779b97f4a7c15u;

// What is squared.
[[gnu::always_inline]] inline uint32_t folded(uint64_t word) {
  return static_cast<uint32_t>(word) + static_cast<uint32_t>(word >> 32);
}
[[gnu::always_inline]] inline uint64_t square(uint32_t word) {
  return uint64_t{word} * word;
}

[[gnu::always_inline]] inline ItemSum sum_of_one(uint32_t item) {
  return {1, item, square(item)};
}
[[gnu::always_inline]] inline ItemSum sum_of_one(uint64_t item) {
  return {1, item, square(folded(item))};
}
// The factor tells the two words apart.
[[gnu::always_inline]] inline ItemSum sum_of_two(uint64_t first, uint64_t second) {
  return {1, first + second * mix_factor, square(folded(first) + folded(second))};
}
[[gnu::always_inline]] inline ItemSum sum_of_one(const KeyValue& item) {
  return sum_of_two(item.key, item.value);
}
[[gnu::always_inline]] inline ItemSum sum_of_one(const Key128& item) {
  return sum_of_two(item.high, item.low);
}

// The halves of the product of 128 bits, one XORed to the other.
[[gnu::always_inline]] inline uint64_t mix_of(uint64_t first, uint64_t second) {
  const __uint128_t product = static_cast<__uint128_t>(first ^ mix_offset) * (second ^ mix_factor);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace penstock::sorting
