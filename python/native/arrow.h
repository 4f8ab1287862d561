#pragma once

// The Arrow C data interface, as in its specification, and the memory layouts of its types.

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base.h"

extern "C" {

struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};

}  // extern "C"

namespace penstock::python {

enum class Layout {
  nothing,     // all are null
  boolean,     // a bit each
  fixed,       // `width` bytes each
  text32,      // bytes, by 32-bit offsets
  text64,      // bytes, by 64-bit offsets
  list32,      // items of one child, by 32-bit offsets
  list64,      // items of one child, by 64-bit offsets
  view32,      // items of one child, by 32-bit offsets and lengths
  view64,      // items of one child, by 64-bit offsets and lengths
  fixed_list,  // `width` items of one child
  structure,   // one of each child
};

// The comparison of a type's values.
enum class Order { none, signed_number, unsigned_number, floating, bytes };

struct Column {
  std::string name;
  Layout layout = Layout::nothing;
  Order order = Order::none;
  size_t width = 0;
  std::vector<Column> children = {};
};

// Errors: unsupported, for a union, or a type that penstock/_tables.py should have converted
// (dictionaries, views, runs).
Result<Column> column_of(const ArrowSchema& schema);

inline size_t bytes_of_bits(uint64_t bits) {
  return (bits + 7) / 8;
}
inline bool bit_at(const void* bits, uint64_t i) {
  return static_cast<const uint8_t*>(bits)[i / 8] >> (i % 8) & 1;
}

}  // namespace penstock::python
