#pragma once

// Items to scatter: keys that are unsigned numbers, alone or with a value that travels with them.
// Everything is inlined by force: see key_order.h.

#include <cstdint>

#include "penstock/base.h"

namespace penstock::scatter {

// The key's leading 64 bits, or all of it.
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

// The key's last 64 bits, or all of it.
template <class T>
[[gnu::always_inline]] inline uint64_t low_word_of(const T& item) {
  return key_of(item);
}
[[gnu::always_inline]] inline uint64_t low_word_of(const Key128& item) {
  return item.low;
}
// A word that depends on all bits of the key.
template <class T>
[[gnu::always_inline]] inline uint64_t mixed_word_of(const T& item) {
  return key_of(item);
}
[[gnu::always_inline]] inline uint64_t mixed_word_of(const Key128& item) {
  return item.low ^ item.high * 0x9e3779b97f4a7c15u;
}

}  // namespace penstock::scatter
