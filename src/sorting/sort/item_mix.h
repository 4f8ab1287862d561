#pragma once

// Sums of items that do not depend on their order: equal sums mean that the items are the same.
//
// A sum of the items themselves sees each change of one item, and each item that replaced another,
// but is blind to exchanges between two of them: halves that changed places, a bit that went from
// one to the other. So squares are added up, too. Only 32 bits are squared, on which all words of
// the item have an influence, because vectors multiply 32 by 32 bits at once; an exchange between
// two items changes both their squares, and by different amounts unless the two have just changed
// places.
//
// Records and lines are first mixed to a word each, whose bits reveal nothing about theirs
// (mix_of): the sum of these words alone is enough.
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
  // The sum of `times` equal parts.
  ItemSum operator*(uint64_t times) const {
    return {items * times, words * times, squares * times};
  }
  bool operator==(const ItemSum&) const = default;
};

inline constexpr uint64_t mix_factor = 0xd6e8feb86659fd93u;
inline constexpr uint64_t mix_offset = 0x9e3779b97f4a7c15u;

// The 32 bits that are squared.
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
// The factor distinguishes the two words.
[[gnu::always_inline]] inline ItemSum sum_of_two(uint64_t first, uint64_t second) {
  return {1, first + second * mix_factor, square(folded(first) + folded(second))};
}
[[gnu::always_inline]] inline ItemSum sum_of_one(const KeyValue& item) {
  return sum_of_two(item.key, item.value);
}
[[gnu::always_inline]] inline ItemSum sum_of_one(const Key128& item) {
  return sum_of_two(item.high, item.low);
}

// XORs the halves of the product of 128 bits.
[[gnu::always_inline]] inline uint64_t mix_of(uint64_t first, uint64_t second) {
  const __uint128_t product = static_cast<__uint128_t>(first ^ mix_offset) * (second ^ mix_factor);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace penstock::sorting
