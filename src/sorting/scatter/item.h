#pragma once

// What is scattered: keys that are unsigned numbers, alone or with a value that travels with them.
// Everything is inlined by force: see key_order.h.

#include <cstdint>

#include "penstock/base.h"

namespace penstock::scatter {

// The leading 64 bits of the key, or all of them.
[[gnu::always_inline]] inline uint64_t key_of(uint8_t item) {
  return item;
}
[[gnu::always_inline]] inline uint64_t key_of(uint16_t item) {
  return item;
}
[[gnu::always_inline]] inline uint64_t key_of(uint32_t item) {
  return item;
}
[[gnu::always_inline]] inline uint64_t key_of(uint64_t item) {
  return item;
}
[[gnu::always_inline]] inline uint64_t key_of(const KeyValue32& item) {
  return item.key;
}
[[gnu::always_inline]] inline uint64_t key_of(const KeyValue64& item) {
  return item.key;
}
[[gnu::always_inline]] inline uint64_t key_of(const Key128& item) {
  return item.high;
}

// The last 64 bits of the key, or all of them.
template <class T>
[[gnu::always_inline]] inline uint64_t low_word_of(const T& item) {
  return key_of(item);
}
[[gnu::always_inline]] inline uint64_t low_word_of(const Key128& item) {
  return item.low;
}
// In which all bits of the key have a part.
template <class T>
[[gnu::always_inline]] inline uint64_t mixed_word_of(const T& item) {
  return key_of(item);
}
[[gnu::always_inline]] inline uint64_t mixed_word_of(const Key128& item) {
  return item.low ^ item.high * 0x9e3779b97f4a7c15u;
}

}  // namespace penstock::scatter
