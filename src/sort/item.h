#pragma once

// What the sort moves: plain unsigned keys, a key with 8 bytes that travel with it, or a key of 16
// bytes. Everything is inlined by force: see key_order.h.

#include <cstdint>

#include "penstock/item.h"

namespace penstock::sorting {

using KeyValue = KeyValue64;
using penstock::Key128;

// The leading 64 bits of the key.
[[gnu::always_inline]] inline uint64_t key_of(uint32_t item) {
  return item;
}
[[gnu::always_inline]] inline uint64_t key_of(uint64_t item) {
  return item;
}
[[gnu::always_inline]] inline uint64_t key_of(const KeyValue& item) {
  return item.key;
}
[[gnu::always_inline]] inline uint64_t key_of(const Key128& item) {
  return item.high;
}

// The order of the sort: by the whole key.
[[gnu::always_inline]] inline bool less(uint32_t a, uint32_t b) {
  return a < b;
}
[[gnu::always_inline]] inline bool less(uint64_t a, uint64_t b) {
  return a < b;
}
[[gnu::always_inline]] inline bool less(const KeyValue& a, const KeyValue& b) {
  return a.key < b.key;
}
[[gnu::always_inline]] inline bool less(const Key128& a, const Key128& b) {
  return a.high < b.high || (a.high == b.high && a.low < b.low);
}

}  // namespace penstock::sorting
