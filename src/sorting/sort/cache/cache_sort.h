#pragma once

// A sort of items in the caches: one distribution into slots, then leaves. See cache_sort.cc.

#include <cstddef>
#include <cstdint>
#include <span>

#include "os/memory.h"
#include "penstock/base.h"
#include "sorting/scatter/bucket_map.h"
#include "sorting/scatter/kernels.h"
#include "sorting/scatter/key_order.h"
#include "sorting/sort/kernels/kernels.h"
#include "sorting/sort/leaf/leaf.h"

namespace penstock::sorting {

// A piece of the items to sort, in place.
template <class T>
struct Piece {
  const T* items;
  size_t count;
};

// Use: load(), then store(). Between the two the pieces are no longer needed, and the output may
// overwrite them. Stable.
//
// Thread safety: one thread. Memory: bytes_needed(items_max), for its lifetime.
template <class T>
class CacheSort {
 public:
  static size_t bytes_needed(size_t items_max);

  static Result<CacheSort> open(size_t items_max, const KeyOrder& order);
  // Uses the caller's memory: bytes_needed(items_max), aligned to 64 bytes.
  CacheSort(std::byte* memory, size_t items_max, const KeyOrder& order);

  size_t items_max() const { return items_max_; }

  // REQUIRES: `pieces` has `count` items, at most items_max; their encoded keys lie in `keys`.
  void load(std::span<const Piece<T>> pieces, size_t count, const KeyRange& keys);
  // Stores the items in order. `out` has room for `count` items; it may be written more than once.
  // Allocates nothing.
  void store(T* out) noexcept;

 private:
  enum class Plan { leaf, slots, copy };

  bool load_slots(std::span<const Piece<T>> pieces);
  void load_copy(std::span<const Piece<T>> pieces);
  void store_slots(T* out) noexcept;

  os::Reservation owned_;
  size_t items_max_ = 0;
  KeyOrder order_;
  const Kernels<T>* kernels_;
  LeafSort<T> leaf_;
  T* room_ = nullptr;  // in front of scratch_, without a gap
  T* scratch_ = nullptr;
  T* spilled_ = nullptr;
  typename scatter::Slots<T>::Fill* fills_ = nullptr;

  Plan plan_ = Plan::copy;
  size_t count_ = 0;
  KeyRange keys_;
  BucketMap map_;
  size_t slot_items_ = 0;
  size_t spilled_count_ = 0;
};

}  // namespace penstock::sorting
