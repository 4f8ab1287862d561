#include "sort/leaf.h"

#if defined(__x86_64__)

#include <immintrin.h>

// Bitonic networks on vectors of eight 64-bit keys held in registers.
//
// The naive network compares element i with element i + distance; while the distance is 8 or more
// these are whole vectors, and a comparator of eight pairs is one min and one max. Below that the
// partner is in the same vector: shuffle, min, max, blend. To merge two sorted halves the second
// must be reversed: we reverse its lanes once per merge and write the maxima where they fall,
// because what follows only needs each half to be bitonic, in either direction.
//
// Leaves are padded with the greatest key. For pairs an item that has that key itself could change
// places with padding, so the payload of padding must never come out: padding is told apart by
// sorting such items last beforehand (leaf_kv).

namespace penstock::sort::avx512 {
namespace {

constexpr long long lane_pattern[3][8] = {
    {1, 0, 3, 2, 5, 4, 7, 6}, {2, 3, 0, 1, 6, 7, 4, 5}, {4, 5, 6, 7, 0, 1, 2, 3}};
constexpr long long mirror_pattern[3][8] = {
    {1, 0, 3, 2, 5, 4, 7, 6}, {3, 2, 1, 0, 7, 6, 5, 4}, {7, 6, 5, 4, 3, 2, 1, 0}};
constexpr __mmask8 upper_lanes[3] = {0b10101010, 0b11001100, 0b11110000};

struct Keys {
  __m512i key;
};
struct Pairs {
  __m512i key, value;
};

inline __m512i load_pattern(const long long (&pattern)[8]) {
  return _mm512_loadu_si512(pattern);
}

inline void exchange(Keys& low, Keys& high) {
  __m512i minimum = _mm512_min_epu64(low.key, high.key);
  high.key = _mm512_max_epu64(low.key, high.key);
  low.key = minimum;
}
inline void exchange(Pairs& low, Pairs& high) {
  __mmask8 swap = _mm512_cmplt_epu64_mask(high.key, low.key);
  Pairs a = low;
  Pairs b = high;
  low.key = _mm512_mask_blend_epi64(swap, a.key, b.key);
  low.value = _mm512_mask_blend_epi64(swap, a.value, b.value);
  high.key = _mm512_mask_blend_epi64(swap, b.key, a.key);
  high.value = _mm512_mask_blend_epi64(swap, b.value, a.value);
}

inline Keys permuted(const Keys& v, __m512i pattern) {
  return {_mm512_permutexvar_epi64(pattern, v.key)};
}
inline Pairs permuted(const Pairs& v, __m512i pattern) {
  return {_mm512_permutexvar_epi64(pattern, v.key), _mm512_permutexvar_epi64(pattern, v.value)};
}

// Compares each lane with its partner in `pattern`; lanes in `upper` keep the greater.
inline void exchange_lanes(Keys& v, __m512i pattern, __mmask8 upper) {
  __m512i partner = _mm512_permutexvar_epi64(pattern, v.key);
  __m512i minimum = _mm512_min_epu64(v.key, partner);
  v.key = _mm512_mask_max_epu64(minimum, upper, v.key, partner);
}
inline void exchange_lanes(Pairs& v, __m512i pattern, __mmask8 upper) {
  Pairs partner = permuted(v, pattern);
  __mmask8 less = _mm512_cmplt_epu64_mask(partner.key, v.key);
  __mmask8 greater = _mm512_cmplt_epu64_mask(v.key, partner.key);
  __mmask8 take = static_cast<__mmask8>((less & ~upper) | (greater & upper));
  v.key = _mm512_mask_blend_epi64(take, v.key, partner.key);
  v.value = _mm512_mask_blend_epi64(take, v.value, partner.value);
}

// Sorts `vectors` vectors as one sequence.
template <int vectors, class V>
[[gnu::always_inline]] inline void network(V (&v)[vectors]) {
  const __m512i mirror1 = load_pattern(mirror_pattern[0]);
  const __m512i mirror2 = load_pattern(mirror_pattern[1]);
  const __m512i reverse = load_pattern(mirror_pattern[2]);
  const __m512i lanes2 = load_pattern(lane_pattern[1]);
  const __m512i lanes4 = load_pattern(lane_pattern[2]);
#pragma GCC unroll 16
  for (int i = 0; i < vectors; ++i) {
    exchange_lanes(v[i], mirror1, upper_lanes[0]);
    exchange_lanes(v[i], mirror2, upper_lanes[1]);
    exchange_lanes(v[i], mirror1, upper_lanes[0]);
    exchange_lanes(v[i], reverse, upper_lanes[2]);
    exchange_lanes(v[i], lanes2, upper_lanes[1]);
    exchange_lanes(v[i], mirror1, upper_lanes[0]);
  }
#pragma GCC unroll 4
  for (int group = 2; group <= vectors; group *= 2) {
#pragma GCC unroll 8
    for (int start = 0; start < vectors; start += group) {
      V merged[vectors];
#pragma GCC unroll 8
      for (int i = 0; i < group / 2; ++i) {
        merged[i] = v[start + i];
        merged[group / 2 + i] = permuted(v[start + group - 1 - i], reverse);
        exchange(merged[i], merged[group / 2 + i]);
      }
#pragma GCC unroll 16
      for (int i = 0; i < group; ++i) v[start + i] = merged[i];
    }
#pragma GCC unroll 4
    for (int distance = group / 4; distance >= 1; distance /= 2) {
#pragma GCC unroll 16
      for (int i = 0; i < vectors; ++i) {
        if ((i & distance) == 0) exchange(v[i], v[i + distance]);
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < vectors; ++i) {
      exchange_lanes(v[i], lanes4, upper_lanes[2]);
      exchange_lanes(v[i], lanes2, upper_lanes[1]);
      exchange_lanes(v[i], mirror1, upper_lanes[0]);
    }
  }
}

inline __mmask8 lanes_of(size_t count, int vector) {
  size_t first = static_cast<size_t>(vector) * 8;
  if (count >= first + 8) return 0xff;
  return count <= first ? __mmask8{0} : static_cast<__mmask8>((1u << (count - first)) - 1);
}

// Keys of 64 bits, and keys of 32 bits in 64-bit lanes.
inline __m512i load(const uint64_t* in, __mmask8 lanes) {
  return _mm512_mask_loadu_epi64(_mm512_set1_epi64(-1), lanes, in);
}
inline __m512i load(const uint32_t* in, __mmask8 lanes) {
  __m256i narrow = _mm256_mask_loadu_epi32(_mm256_set1_epi32(-1), lanes, in);
  return _mm512_cvtepu32_epi64(narrow);
}
inline void store(uint64_t* out, __mmask8 lanes, __m512i v) {
  _mm512_mask_storeu_epi64(out, lanes, v);
}
inline void store(uint32_t* out, __mmask8 lanes, __m512i v) {
  _mm256_mask_storeu_epi32(out, lanes, _mm512_cvtepi64_epi32(v));
}

template <int vectors, class T>
void sort_keys(const T* in, size_t count, T* out) {
  Keys v[vectors];
#pragma GCC unroll 16
  for (int i = 0; i < vectors; ++i) v[i].key = load(in + i * 8, lanes_of(count, i));
  network(v);
#pragma GCC unroll 16
  for (int i = 0; i < vectors; ++i) store(out + i * 8, lanes_of(count, i), v[i].key);
}

template <class T>
void leaf_keys(const T* in, size_t count, T* out) {
  if (count <= 8) return sort_keys<1>(in, count, out);
  if (count <= 16) return sort_keys<2>(in, count, out);
  if (count <= 32) return sort_keys<4>(in, count, out);
  if (count <= 64) return sort_keys<8>(in, count, out);
  sort_keys<16>(in, count, out);
}

const long long even_lanes[8] = {0, 2, 4, 6, 8, 10, 12, 14};
const long long odd_lanes[8] = {1, 3, 5, 7, 9, 11, 13, 15};
const long long low_pairs[8] = {0, 8, 1, 9, 2, 10, 3, 11};
const long long high_pairs[8] = {4, 12, 5, 13, 6, 14, 7, 15};

inline Pairs load_pairs(const KeyValue* in, size_t count) {
  __m512i all = _mm512_set1_epi64(-1);
  const auto* words = reinterpret_cast<const uint64_t*>(in);
  __m512i a = _mm512_mask_loadu_epi64(all, lanes_of(count * 2, 0), words);
  __m512i b = _mm512_mask_loadu_epi64(all, lanes_of(count * 2, 1), words + 8);
  return {_mm512_permutex2var_epi64(a, load_pattern(even_lanes), b),
          _mm512_permutex2var_epi64(a, load_pattern(odd_lanes), b)};
}
inline void store_pairs(KeyValue* out, size_t count, const Pairs& v) {
  auto* words = reinterpret_cast<uint64_t*>(out);
  __m512i a = _mm512_permutex2var_epi64(v.key, load_pattern(low_pairs), v.value);
  __m512i b = _mm512_permutex2var_epi64(v.key, load_pattern(high_pairs), v.value);
  _mm512_mask_storeu_epi64(words, lanes_of(count * 2, 0), a);
  _mm512_mask_storeu_epi64(words + 8, lanes_of(count * 2, 1), b);
}

inline size_t remaining(size_t count, int vector) {
  size_t first = static_cast<size_t>(vector) * 8;
  return count <= first ? 0 : count - first;
}

template <int vectors>
void sort_pairs(const KeyValue* in, size_t count, KeyValue* out) {
  Pairs v[vectors];
#pragma GCC unroll 16
  for (int i = 0; i < vectors; ++i) v[i] = load_pairs(in + i * 8, remaining(count, i));
  network(v);
#pragma GCC unroll 16
  for (int i = 0; i < vectors; ++i) store_pairs(out + i * 8, remaining(count, i), v[i]);
}

}  // namespace

void leaf_u32(const uint32_t* in, size_t count, uint32_t* out) {
  leaf_keys(in, count, out);
}
void leaf_u64(const uint64_t* in, size_t count, uint64_t* out) {
  leaf_keys(in, count, out);
}

void leaf_kv(const KeyValue* in, size_t count, KeyValue* out) {
  alignas(64) KeyValue kept[leaf_items_max];
  KeyValue tops[leaf_items_max];
  size_t rest = 0;
  size_t top_count = 0;
  for (size_t i = 0; i < count; ++i) {
    bool top = in[i].key == ~uint64_t{0};
    kept[rest] = in[i];
    tops[top_count] = in[i];
    rest += !top;
    top_count += top;
  }
  if (rest <= 8) {
    sort_pairs<1>(kept, rest, out);
  } else if (rest <= 16) {
    sort_pairs<2>(kept, rest, out);
  } else if (rest <= 32) {
    sort_pairs<4>(kept, rest, out);
  } else if (rest <= 64) {
    sort_pairs<8>(kept, rest, out);
  } else {
    sort_pairs<16>(kept, rest, out);
  }
  for (size_t i = 0; i < top_count; ++i) out[rest + i] = tops[i];
}

}  // namespace penstock::sort::avx512

#endif
