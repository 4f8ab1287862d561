#pragma once

// The Arrow C data interface, as its specification has it, and how values of its types are laid out.

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
  text32,      // bytes, by offsets of 32 bits
  text64,      // the same, of 64
  list32,      // items of one child, by offsets of 32 bits
  list64,      // the same, of 64
  view32,      // the same, by offsets and lengths of 32 bits
  view64,      // of 64
  fixed_list,  // `width` items of one child
  structure,   // one of each child
};

// How values of a type compare.
enum class Order { none, signed_number, unsigned_number, floating, bytes };

struct Column {
  std::string name;
  Layout layout = Layout::nothing;
  Order order = Order::none;
  size_t width = 0;
  std::vector<Column> children = {};
};

// Errors: unsupported: a type that penstock/_tables.py was to make another one (dictionaries, views, runs), or a union.
Result<Column> column_of(const ArrowSchema& schema);

inline size_t bytes_of_bits(uint64_t bits) {
  return (bits + 7) / 8;
}
inline bool bit_at(const void* bits, uint64_t i) {
  return static_cast<const uint8_t*>(bits)[i / 8] >> (i % 8) & 1;
}

}  // namespace penstock::python
