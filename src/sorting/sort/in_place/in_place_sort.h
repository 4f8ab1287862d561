#pragma once

// The sort of memory: in place, by one or more threads. See in_place_sort.cc.

#include <cstddef>
#include <cstdint>

#include "penstock/base.h"
#include "sorting/scatter/key_order.h"
#include "sorting/sort/item_mix.h"

namespace penstock::sorting {

struct InPlaceOptions {
  KeyOrder order;
  bool stable = false;
  unsigned threads = 1;
  // Only the least `first` items need to be in order, at the front.
  uint64_t first = ~uint64_t{0};
  // Sum to which all items are added during the sort: cheaper than afterwards, because most are in
  // the cache.
  ItemSum* sum = nullptr;
};

// Sorts `count` items. For uint32_t, uint64_t, KeyValue and Key128. Errors: out_of_memory; all
// items are there, though some may have changed places.
template <class T>
Status sort_in_place(T* items, size_t count, const InPlaceOptions& options);

// Sorts `in` to `out`; they do not overlap.
template <class T>
Status sort_to(const T* in, size_t count, T* out, const InPlaceOptions& options);

// The most bytes of memory that a sort takes beside its items (tables and stacks included, the
// system's page tables not).
template <class T>
uint64_t extra_bytes(size_t count, const InPlaceOptions& options);

}  // namespace penstock::sorting
