#pragma once

#include <cstdint>

namespace penstock::sort {

// What the sort moves: plain unsigned keys, or a key with 8 bytes that travel with it.
struct KeyValue {
  uint64_t key;
  uint64_t value;
};

inline uint64_t key_of(uint32_t item) {
  return item;
}
inline uint64_t key_of(uint64_t item) {
  return item;
}
inline uint64_t key_of(const KeyValue& item) {
  return item.key;
}

}  // namespace penstock::sort
