#pragma once

// The items that sorts and partitions move, besides plain uint32_t and uint64_t.

#include <cstdint>

namespace penstock {

// A key, and as many bytes that travel with it.
struct KeyValue32 {
  uint32_t key;
  uint32_t value;
  bool operator==(const KeyValue32&) const = default;
};
struct KeyValue64 {
  uint64_t key;
  uint64_t value;
  bool operator==(const KeyValue64&) const = default;
};

// A number of 128 bits, as little-endian memory holds it: the low word first.
struct Key128 {
  uint64_t low;
  uint64_t high;
  bool operator==(const Key128&) const = default;
};

}  // namespace penstock
