#pragma once

// Signed numbers, floating-point numbers and descending order, as unsigned numbers in ascending
// order.
//
// encode() is a bijection on words such that encoded words, compared as unsigned numbers, have the
// requested order. It is the same few instructions for every type and direction, with other
// constants, so that one kernel serves all of them:
//
//   signed      flip the sign bit
//   float       flip the sign bit; of negative numbers all others, too; and subtract how many NaNs
//               have a sign, which wraps them around to the top: -inf < ... < -0 < +0 < ... < inf
//               < NaN < -NaN, as in files (items/keys/codec.h)
//   descending  flip everything, and subtract the negative of that
//   (u32, u32)  turn the word by 32 bits first: the key, which stands first in memory, comes above

#include <cstdint>
#include <type_traits>

#include "sorting/scatter/item.h"

namespace penstock::scatter {

// Everything here is inlined by force: files for different processors share it, and the linker must
// not use one file's copy for another.
struct KeyOrder {
  uint64_t flip_if_negative = 0;
  uint64_t flip = 0;
  unsigned turn_bits = 0;
  uint64_t subtract = 0;

  bool plain() const { return (flip_if_negative | flip | turn_bits | subtract) == 0; }
  KeyOrder reversed() const { return {flip_if_negative, ~flip, turn_bits, -subtract}; }
  bool operator==(const KeyOrder&) const = default;
};

// `Word` is uint32_t or uint64_t; the flips are in its low bits.
template <class Word>
[[gnu::always_inline]] constexpr Word encode(Word word, const KeyOrder& order) {
  using Signed = std::make_signed_t<Word>;
  if constexpr (sizeof(Word) == 8)
    word = (word << order.turn_bits) | (word >> (-order.turn_bits % 64));
  auto negative = static_cast<Word>(static_cast<Signed>(word) >> (8 * sizeof(Word) - 1));
  return static_cast<Word>((word ^ (negative & static_cast<Word>(order.flip_if_negative)) ^
                            static_cast<Word>(order.flip)) -
                           static_cast<Word>(order.subtract));
}
template <class Word>
[[gnu::always_inline]] constexpr Word decode(Word word, const KeyOrder& order) {
  using Signed = std::make_signed_t<Word>;
  word = static_cast<Word>(word + static_cast<Word>(order.subtract));
  word ^= static_cast<Word>(order.flip);
  auto negative = static_cast<Word>(static_cast<Signed>(word) >> (8 * sizeof(Word) - 1));
  word ^= negative & static_cast<Word>(order.flip_if_negative);
  if constexpr (sizeof(Word) == 8)
    word = (word >> order.turn_bits) | (word << (-order.turn_bits % 64));
  return word;
}

[[gnu::always_inline]] inline KeyValue64 encode(const KeyValue64& item, const KeyOrder& order) {
  return {encode(item.key, order), item.value};
}
[[gnu::always_inline]] inline KeyValue64 decode(const KeyValue64& item, const KeyOrder& order) {
  return {decode(item.key, order), item.value};
}
// 128-bit keys differ only in direction and sign.
[[gnu::always_inline]] inline Key128 encode(const Key128& item, const KeyOrder& order) {
  return {item.low ^ (order.flip << 1 == 0 ? 0 : ~uint64_t{0}), item.high ^ order.flip};
}
[[gnu::always_inline]] inline Key128 decode(const Key128& item, const KeyOrder& order) {
  return encode(item, order);
}

}  // namespace penstock::scatter
