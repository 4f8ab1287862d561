#if defined(__x86_64__)

#include <immintrin.h>

#include "sort/cache/quick_sort.h"

// Vectors are compressed in registers and stored whole; what such a store writes behind the items
// that count is overwritten later, or is memory that the reading has passed: both write positions
// are at most the position of the vector just read. Four vectors are read before any is stored, for
// the same reason allowed, so that loads need not wait for the stores in front of them.

namespace penstock::sorting::avx512 {
namespace {

template <class T>
struct Lanes;

template <>
struct Lanes<uint32_t> {
  __m512i pivot;
  explicit Lanes(uint32_t key) : pivot(_mm512_set1_epi32(static_cast<int>(key))) {}
  uint32_t below(__m512i v) const { return _mm512_cmplt_epu32_mask(v, pivot); }
  static __m512i compress(uint32_t mask, __m512i v) {
    return _mm512_maskz_compress_epi32(static_cast<__mmask16>(mask), v);
  }
  static constexpr uint32_t all = 0xffff;
};

template <>
struct Lanes<uint64_t> {
  __m512i pivot;
  explicit Lanes(uint64_t key) : pivot(_mm512_set1_epi64(static_cast<long long>(key))) {}
  uint32_t below(__m512i v) const { return _mm512_cmplt_epu64_mask(v, pivot); }
  static __m512i compress(uint32_t mask, __m512i v) {
    return _mm512_maskz_compress_epi64(static_cast<__mmask8>(mask), v);
  }
  static constexpr uint32_t all = 0xff;
};

template <>
struct Lanes<KeyValue> : Lanes<uint64_t> {
  explicit Lanes(const KeyValue& item) : Lanes<uint64_t>(item.key) {}
  uint32_t below(__m512i v) const {
    const uint32_t keys = Lanes<uint64_t>::below(v) & 0x55;
    return keys | keys << 1;
  }
};

template <>
struct Lanes<Key128> : Lanes<uint64_t> {
  explicit Lanes(const Key128& item) : Lanes<uint64_t>(0) {
    const auto low = static_cast<long long>(item.low);
    const auto high = static_cast<long long>(item.high);
    pivot = _mm512_set4_epi64(high, low, high, low);
  }
  uint32_t below(__m512i v) const {
    const uint32_t smaller = Lanes<uint64_t>::below(v);
    const uint32_t equal = _mm512_cmpeq_epu64_mask(v, pivot);
    const uint32_t highs = (smaller | (equal & (smaller << 1))) & 0xaa;
    return highs | highs >> 1;
  }
};

}  // namespace

template <class T>
size_t partition_by_pivot(const T* items, size_t count, const T& pivot, T* below, T* rest) {
  constexpr size_t items_a_vector = 64 / sizeof(T);
  constexpr size_t lanes_an_item = sizeof(T) == 16 ? 2 : 1;
  const Lanes<T> lanes(pivot);
  size_t below_count = 0;
  size_t i = 0;
  const auto place = [&](__m512i v) __attribute__((always_inline)) {
    const uint32_t mask = lanes.below(v);
    _mm512_storeu_si512(below + below_count, lanes.compress(mask, v));
    _mm512_storeu_si512(rest + (i - below_count), lanes.compress(mask ^ lanes.all, v));
    below_count += static_cast<size_t>(__builtin_popcount(mask)) / lanes_an_item;
    i += items_a_vector;
  };
  while (i + 4 * items_a_vector <= count) {
    const __m512i a = _mm512_loadu_si512(items + i);
    const __m512i b = _mm512_loadu_si512(items + i + items_a_vector);
    const __m512i c = _mm512_loadu_si512(items + i + 2 * items_a_vector);
    const __m512i d = _mm512_loadu_si512(items + i + 3 * items_a_vector);
    place(a);
    place(b);
    place(c);
    place(d);
  }
  while (i + items_a_vector <= count) place(_mm512_loadu_si512(items + i));
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

}  // namespace penstock::sorting::avx512

#endif
