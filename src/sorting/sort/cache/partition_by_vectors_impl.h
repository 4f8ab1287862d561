// The pass of quick sort by vectors, compiled once for each instruction set: quick_sort_avx2.cc and
// quick_sort_avx512.cc define PENSTOCK_TIER, their namespace, with a class Vectors.
//
// Vectors are compressed in registers and stored whole. The extra lanes of such a store are
// overwritten later, or go to memory that has already been read: both write positions are at most
// the position of the vector just read. Four vectors are read before any is stored, which is safe
// for the same reason, so that loads need not wait for the stores in front of them.

#include <cstddef>
#include <cstdint>

#include "sorting/sort/cache/quick_sort.h"

namespace penstock::sorting::PENSTOCK_TIER {

using Vector = Vectors::Vector;

// The lanes of items below a pivot, a bit for each. Vectors has below() and equal(), by words of 32
// or 64 bits, and compress(), which moves the lanes of a mask to the front.
template <class T>
struct Lanes {
  using Word = T;
  Vector pivot;
  explicit Lanes(T key) : pivot(Vectors::all(key)) {}
  uint32_t below(Vector v) const { return Vectors::below<T>(v, pivot); }
};

template <>
struct Lanes<KeyValue> {
  using Word = uint64_t;
  Vector pivot;
  explicit Lanes(const KeyValue& item) : pivot(Vectors::all(item.key)) {}
  uint32_t below(Vector v) const {
    const uint32_t keys = Vectors::below<Word>(v, pivot) & 0x55;
    return keys | keys << 1;
  }
};

template <>
struct Lanes<Key128> {
  using Word = uint64_t;
  Vector pivot;
  explicit Lanes(const Key128& item) : pivot(Vectors::all(item)) {}
  uint32_t below(Vector v) const {
    const uint32_t smaller = Vectors::below<Word>(v, pivot);
    const uint32_t equal = Vectors::equal(v, pivot);
    const uint32_t highs = (smaller | (equal & (smaller << 1))) & 0xaa;
    return highs | highs >> 1;
  }
};

template <class T>
size_t partition_by_pivot(const T* items, size_t count, const T& pivot, T* below, T* rest) {
  using Word = typename Lanes<T>::Word;
  constexpr size_t items_a_vector = sizeof(Vector) / sizeof(T);
  // NOLINTNEXTLINE(bugprone-sizeof-expression): an item may be one word
  constexpr size_t words_an_item = sizeof(T) / sizeof(Word);
  constexpr uint32_t all = (1u << sizeof(Vector) / sizeof(Word)) - 1;
  const Lanes<T> lanes(pivot);
  size_t below_count = 0;
  size_t i = 0;
  const auto place = [&](Vector v) __attribute__((always_inline)) {
    const uint32_t mask = lanes.below(v);
    Vectors::store(below + below_count, Vectors::compress<Word>(mask, v));
    Vectors::store(rest + (i - below_count), Vectors::compress<Word>(mask ^ all, v));
    below_count += static_cast<size_t>(__builtin_popcount(mask)) / words_an_item;
    i += items_a_vector;
  };
  while (i + 4 * items_a_vector <= count) {
    const Vector a = Vectors::load(items + i);
    const Vector b = Vectors::load(items + i + items_a_vector);
    const Vector c = Vectors::load(items + i + 2 * items_a_vector);
    const Vector d = Vectors::load(items + i + 3 * items_a_vector);
    place(a);
    place(b);
    place(c);
    place(d);
  }
  while (i + items_a_vector <= count) place(Vectors::load(items + i));
  for (; i < count; ++i) {
    const T item = items[i];
    below[below_count] = item;
    rest[i - below_count] = item;
    below_count += less(item, pivot);
  }
  return below_count;
}

template size_t partition_by_pivot(const uint32_t*, size_t, const uint32_t&, uint32_t*, uint32_t*);
template size_t partition_by_pivot(const uint64_t*, size_t, const uint64_t&, uint64_t*, uint64_t*);
template size_t partition_by_pivot(const KeyValue*, size_t, const KeyValue&, KeyValue*, KeyValue*);
template size_t partition_by_pivot(const Key128*, size_t, const Key128&, Key128*, Key128*);

}  // namespace penstock::sorting::PENSTOCK_TIER
