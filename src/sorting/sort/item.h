#pragma once

// The items of the sort: plain unsigned keys, a key with 8 bytes that travel with it, or a key of
// 16 bytes. Everything is inlined by force: see sorting/scatter/key_order.h.

#include <cstdint>

#include "sorting/scatter/item.h"

namespace penstock::sorting {

using namespace scatter;  // sorting scatters its items first

using KeyValue = KeyValue64;
using penstock::Key128;

// Order of the sort: by the whole key.
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
