#pragma once

// Sorts what fits in the second-level cache: counting partition between the data and a spare array,
// then leaves.

#include <cstddef>
#include <cstdint>
#include <memory>

#include "sort/item.h"
#include "sort/leaf.h"

namespace penstock::sort {

// Receives sorted items, in order, in memory that it may change. Items with equal keys always come
// in one call.
template <class T>
class Emitter {
 public:
  virtual void emit(T* sorted, size_t count) = 0;

 protected:
  ~Emitter() = default;
};

// Thread safety: one thread.
template <class T>
class CacheSort {
 public:
  // Measured: 768 KiB, which with as much spare is more than a second-level cache of 1 MiB, still
  // beats twice as many bucket streams with blocks of half the size.
  static constexpr size_t items_target = (768u << 10) / sizeof(T);
  static constexpr size_t items_max = 2 * items_target;

  explicit CacheSort(bool stable);

  bool stable() const { return stable_; }

  // Sorts `data` (whose contents are lost), whose keys lie in [base, base + 2^bits), into `out`.
  // REQUIRES: count <= items_max.
  void sort(T* data, size_t count, uint64_t base, unsigned bits, Emitter<T>& out) {
    sort_between(data, spare_.get(), count, base, bits, out);
  }

 private:
  void sort_between(T* data, T* spare, size_t count, uint64_t base, unsigned bits, Emitter<T>& out);
  void leaf(const T* data, size_t count, Emitter<T>& out);

  std::unique_ptr<T[]> spare_;
  LeafSort<T> leaf_sort_;
  size_t leaf_items_;
  bool stable_;
};

}  // namespace penstock::sort
