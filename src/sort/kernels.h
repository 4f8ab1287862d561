#pragma once

// The inner loops of the sort, compiled once per instruction set (kernels_impl.h); kernels()
// chooses.

#include <cstddef>
#include <cstdint>

#include "sort/bucket_map.h"
#include "sort/item.h"
#include "sort/key_order.h"

namespace penstock::sorting {

// The state of a distribution to arrays outside of the cache: see line_scatter.h.
template <class T>
struct Lines {
  static constexpr size_t line_bytes = 256;
  static constexpr size_t line_items = line_bytes / sizeof(T);

  struct Destination {
    T* next;   // where the next full line goes
    T* limit;  // where it no longer fits, and more room is asked for
  };

  std::byte* lines;           // one of each bucket, aligned to line_bytes
  uint32_t* at;               // per bucket: the next item, as an offset into `lines`
  Destination* destinations;  // per bucket
  bool aligned;               // destinations are multiples of 64 bytes
  void (*make_room)(void* self, uint32_t bucket, Destination& destination);
  void* self;
};

// The state of a distribution within the cache: every bucket has a place for `end - begin` items.
template <class T>
struct Slots {
  struct Fill {
    uint32_t at;   // bytes from `base`: where the next item goes
    uint32_t end;  // where none goes any more
  };
  std::byte* base;
  Fill* fills;  // per bucket
  T* spilled;   // items that found their bucket full, in order; room for an eighth and 512
  size_t spilled_count;
  size_t read_count;  // of items, so far
};

template <class T>
struct Kernels {
  // Items go to the ends of many arrays, by way of the lines. `ahead`: what will be read next.
  void (*scatter_lines)(const T* items, size_t count, const BucketMap& map, const KeyOrder& order,
                        Lines<T>& lines, const T* ahead);
  // Items go, encoded, to slots. False when more than an eighth of all so far did not fit: give up.
  // `map` is by range.
  bool (*scatter_slots)(const T* items, size_t count, const BucketMap& map, const KeyOrder& order,
                        Slots<T>& slots, const T* ahead);
  void (*encode)(const T* from, size_t count, const KeyOrder& order, T* to);
  void (*decode)(T* items, size_t count, const KeyOrder& order);
  // Widens nothing: the least and the greatest encoded key of items that are not encoded yet.
  KeyRange (*range_of)(const T* items, size_t count, const KeyOrder& order);
  // How many of the first items are in order (at least one, if there is one).
  size_t (*ascending)(const T* items, size_t count, const KeyOrder& order);
  void (*reverse)(T* items, size_t count);
};

// For uint32_t, uint64_t, KeyValue, Key128.
template <class T>
const Kernels<T>& kernels();

}  // namespace penstock::sorting
