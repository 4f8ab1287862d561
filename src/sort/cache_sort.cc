#include "sort/cache_sort.h"

#include <algorithm>
#include <bit>

// Counting partition reads the data twice, but here they are in the cache, and in exchange buckets
// lie without gaps: no distribution of keys makes this step take more than count items of spare
// memory. Recursion swaps data and spare; each level consumes at least one bit, so the depth is
// bounded by the key's bits, whatever the keys are.

namespace penstock::sort {
namespace {

constexpr unsigned bits_max = 11;
constexpr size_t leaf_items_mean = 40;
constexpr size_t leaf_items_stable =
    24;  // insertion sort beyond this is slower than one more partition

unsigned bits_for(size_t count, size_t leaf_items, unsigned bits_left) {
  auto wanted = static_cast<unsigned>(std::bit_width(count / leaf_items));
  return std::clamp(wanted, 2u, std::min(bits_max, std::max(2u, bits_left)));
}

}  // namespace

template <class T>
CacheSort<T>::CacheSort(bool stable)
    : spare_(std::make_unique_for_overwrite<T[]>(items_max)),
      leaf_sort_(leaf_sort<T>()),
      leaf_items_(stable ? leaf_items_stable : leaf_items_max),
      stable_(stable) {}

template <class T>
void CacheSort<T>::leaf(const T* data, size_t count, Emitter<T>& out) {
  alignas(64) T sorted[leaf_items_max];
  if constexpr (std::is_same_v<T, KeyValue>) {
    if (stable_) {
      insertion_sort(data, count, sorted);
      return out.emit(sorted, count);
    }
  }
  leaf_sort_(data, count, sorted);
  out.emit(sorted, count);
}

template <class T>
void CacheSort<T>::sort_between(T* data, T* spare, size_t count, uint64_t base, unsigned bits,
                                Emitter<T>& out) {
  if (count == 0) return;
  if (bits == 0) return out.emit(data, count);
  if (count <= leaf_items_) return leaf(data, count, out);

  unsigned fan_bits =
      std::min(bits_for(count, stable_ ? leaf_items_stable / 2 : leaf_items_mean, bits), bits);
  unsigned shift = bits - fan_bits;
  uint32_t ends[size_t{1} << bits_max];
  size_t buckets = size_t{1} << fan_bits;
  std::fill_n(ends, buckets, 0u);
  for (size_t i = 0; i < count; ++i) ++ends[(key_of(data[i]) - base) >> shift];
  uint32_t sum = 0;
  for (size_t j = 0; j < buckets; ++j) {
    uint32_t size = ends[j];
    ends[j] = sum;
    sum += size;
  }
  for (size_t i = 0; i < count; ++i) spare[ends[(key_of(data[i]) - base) >> shift]++] = data[i];

  uint32_t start = 0;
  for (size_t j = 0; j < buckets; ++j) {
    uint32_t end = ends[j];
    sort_between(spare + start, data + start, end - start, base + (uint64_t{j} << shift), shift,
                 out);
    start = end;
  }
}

template class CacheSort<uint32_t>;
template class CacheSort<uint64_t>;
template class CacheSort<KeyValue>;

}  // namespace penstock::sort
