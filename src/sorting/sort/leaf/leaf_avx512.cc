#if defined(__x86_64__)

#include <immintrin.h>

#include <array>
#include <type_traits>

#include "sorting/sort/leaf/leaf.h"
#include "sorting/sort/leaf/leaf_ties.h"
#include "sorting/sort/leaf/network_plan.h"

// Sixteen words a register, two to sixteen registers.
//
// Ports of the processors that have these instructions: the minimum of two 64-byte vectors runs on
// port 0 only, a shuffle of two sources on port 5 only, bitwise logic on both. The maximum of a and
// b is a ^ b ^ min(a, b), one instruction of bitwise logic, which levels the load if it replaces
// the maximum.

namespace penstock::sorting::avx512 {
namespace {

// Mask of the lanes below `items`, out of `lane_count`.
inline uint32_t lanes_below(size_t items, size_t lane_count) {
  return items >= lane_count ? (uint32_t{1} << lane_count) - 1 : (uint32_t{1} << items) - 1;
}

struct Vectors {
  using Vector = __m512i;
  static constexpr unsigned lane_bits = 4;

  static Vector load(const uint32_t* from) { return _mm512_loadu_si512(from); }
  static void store(uint32_t* to, Vector v) { _mm512_storeu_si512(to, v); }
  // Loads the first `items` lanes, and the greatest word in the others.
  static Vector load_first(const uint32_t* from, size_t items) {
    return _mm512_mask_loadu_epi32(all_greatest(), first(items), from);
  }
  static void store_first(uint32_t* to, Vector v, size_t items) {
    _mm512_mask_storeu_epi32(to, first(items), v);
  }
  static Vector all_greatest() { return _mm512_set1_epi32(-1); }
  static Vector least(Vector a, Vector b) { return _mm512_min_epu32(a, b); }
  static Vector greatest(Vector a, Vector b, Vector least) {
    return _mm512_ternarylogic_epi32(a, b, least, 0x96);
  }

  template <Shuffle kind, std::array<uint32_t, 16> lanes>
  [[gnu::always_inline]] static Vector shuffle(Vector a, Vector b) {
    constexpr bool upper = lanes[0] != 0;  // upper half of the results
    if constexpr (kind == Shuffle::unpack) {
      return upper ? _mm512_unpackhi_epi64(a, b) : _mm512_unpacklo_epi64(a, b);
    } else if constexpr (kind == Shuffle::even_odd) {
      const __m512 x = _mm512_castsi512_ps(a);
      const __m512 y = _mm512_castsi512_ps(b);
      return _mm512_castps_si512(_mm512_shuffle_ps(x, y, upper ? 0xdd : 0x88));
    } else if constexpr (kind == Shuffle::blocks) {
      return _mm512_shuffle_i32x4(a, b, upper ? 0xee : 0x44);
    } else if constexpr (kind == Shuffle::blocks_even_odd) {
      return _mm512_shuffle_i32x4(a, b, upper ? 0xdd : 0x88);
    } else {
      alignas(64) static constexpr auto index = lanes;
      return _mm512_permutex2var_epi32(a, _mm512_load_si512(index.data()), b);
    }
  }

 private:
  static __mmask16 first(size_t items) { return static_cast<__mmask16>(lanes_below(items, 16)); }
};

}  // namespace
}  // namespace penstock::sorting::avx512

#define PENSTOCK_TIER avx512
#include "sorting/sort/leaf/words_by_vectors_impl.h"

namespace penstock::sorting::avx512 {
namespace {

alignas(64) constexpr uint32_t odd_words[16] = {1,  3,  5,  7,  9,  11, 13, 15,
                                                17, 19, 21, 23, 25, 27, 29, 31};
alignas(64) constexpr uint64_t even_keys[8] = {0, 2, 4, 6, 8, 10, 12, 14};
alignas(64) constexpr uint64_t odd_keys[8] = {1, 3, 5, 7, 9, 11, 13, 15};

struct IndexTable {
  alignas(64) uint32_t words[leaf_items_max];
  constexpr IndexTable() : words{} {
    for (uint32_t i = 0; i < leaf_items_max; ++i) words[i] = i;
  }
};
constexpr IndexTable indexes;

// Loads the keys of eight items, of which those below `items` exist.
template <bool whole>
[[gnu::always_inline]] inline __m512i load_keys(const uint64_t* in, size_t items) {
  if constexpr (whole) return _mm512_loadu_si512(in);
  return _mm512_maskz_loadu_epi64(static_cast<__mmask8>(lanes_below(items, 8)), in);
}
template <bool whole, class Pair>
[[gnu::always_inline]] inline __m512i load_keys(const Pair* in, size_t items) {
  const auto* words = reinterpret_cast<const uint64_t*>(in);
  const size_t more = items < 4 ? 0 : items - 4;
  const __m512i a = load_keys<whole>(words, 2 * items);
  const __m512i b = load_keys<whole>(words + 8, 2 * more);
  const auto* lane = std::is_same_v<Pair, Key128> ? odd_keys : even_keys;
  return _mm512_permutex2var_epi64(a, _mm512_load_si512(lane), b);
}

// Loads the words of items [first, first + 16); those that do not exist are the greatest word.
template <bool whole, class T>
[[gnu::always_inline]] inline __m512i load_words(const T* in, size_t first, size_t count,
                                                 __m512i base, __m512i shift) {
  const size_t items = count <= first ? 0 : count - first;
  const size_t more = items < 8 ? 0 : items - 8;
  __m512i a = load_keys<whole>(in + first, items);
  __m512i b = load_keys<whole>(in + first + 8, more);
  a = _mm512_sllv_epi64(_mm512_sub_epi64(a, base), shift);
  b = _mm512_sllv_epi64(_mm512_sub_epi64(b, base), shift);
  const __m512i upper = _mm512_permutex2var_epi32(a, _mm512_load_si512(odd_words), b);
  const __m512i index = _mm512_load_si512(indexes.words + first);
  // (upper & digest mask) | index
  const __m512i words = _mm512_ternarylogic_epi32(
      upper, _mm512_set1_epi32(static_cast<int>(~uint32_t{0} << index_bits)), index, 0xea);
  if constexpr (whole) return words;
  return _mm512_mask_mov_epi32(_mm512_set1_epi32(-1),
                               static_cast<__mmask16>(lanes_below(items, 16)), words);
}

template <bool whole>
[[gnu::always_inline]] inline void gather(const uint64_t* in, __m512i index, uint64_t* out,
                                          size_t items) {
  const __m256i low = _mm512_castsi512_si256(index);
  const __m256i high = _mm512_extracti64x4_epi64(index, 1);
  if constexpr (whole) {
    _mm512_storeu_si512(out, _mm512_i32gather_epi64(low, in, 8));
    _mm512_storeu_si512(out + 8, _mm512_i32gather_epi64(high, in, 8));
  } else {
    const uint32_t exist = lanes_below(items, 16);
    const auto exist_low = static_cast<__mmask8>(exist);
    const auto exist_high = static_cast<__mmask8>(exist >> 8);
    const __m512i none = _mm512_setzero_si512();
    _mm512_mask_storeu_epi64(out, exist_low,
                             _mm512_mask_i32gather_epi64(none, exist_low, low, in, 8));
    if (items > 8)
      _mm512_mask_storeu_epi64(out + 8, exist_high,
                               _mm512_mask_i32gather_epi64(none, exist_high, high, in, 8));
  }
}

// Sorts more than `full` registers of items, up to `used`.
template <size_t used, size_t full, class T>
void leaf_of(const T* in, size_t count, uint64_t base, unsigned bits, T* out) {
  const __m512i base_lanes = _mm512_set1_epi64(static_cast<long long>(base));
  const __m512i shift = _mm512_set1_epi64(64 - static_cast<long long>(bits));
  Registers<used> v;
#pragma GCC unroll 16
  for (size_t r = 0; r < full; ++r)
    v[r] = load_words<true>(in, r * lanes, count, base_lanes, shift);
#pragma GCC unroll 16
  for (size_t r = full; r < used; ++r)
    v[r] = load_words<false>(in, r * lanes, count, base_lanes, shift);
  network<used>(v);

  // The least difference of neighbours is below 2^index_bits if digests are equal.
  __m512i least = _mm512_set1_epi32(-1);
#pragma GCC unroll 16
  for (size_t r = 0; r < used; ++r) {
    const __m512i after = r + 1 < used ? v[r + 1] : _mm512_set1_epi32(-1);
    const __m512i change = _mm512_xor_si512(v[r], _mm512_alignr_epi32(after, v[r], 1));
    if (r < full) {
      least = _mm512_min_epu32(least, change);
    } else {
      const size_t items = count <= r * lanes + 1 ? 0 : count - (r * lanes + 1);
      least = _mm512_mask_min_epu32(least, static_cast<__mmask16>(lanes_below(items, lanes)), least,
                                    change);
    }
  }
  const bool ties = _mm512_cmplt_epu32_mask(least, _mm512_set1_epi32(1 << index_bits)) != 0;

  const __m512i index_mask = _mm512_set1_epi32((1 << index_bits) - 1);
  if constexpr (std::is_same_v<T, uint64_t>) {
#pragma GCC unroll 16
    for (size_t r = 0; r < full; ++r)
      gather<true>(in, _mm512_and_si512(v[r], index_mask), out + r * lanes, lanes);
#pragma GCC unroll 16
    for (size_t r = full; r < used; ++r) {
      if (count > r * lanes)
        gather<false>(in, _mm512_and_si512(v[r], index_mask), out + r * lanes, count - r * lanes);
    }
  } else {
    alignas(64) uint32_t offsets[used * lanes];
#pragma GCC unroll 16
    for (size_t r = 0; r < used; ++r)
      _mm512_store_si512(offsets + r * lanes,
                         _mm512_slli_epi32(_mm512_and_si512(v[r], index_mask), 4));
    auto* to = reinterpret_cast<__m128i*>(out);
    const auto item = [in, &offsets](size_t i) {
      const auto* from = reinterpret_cast<const char*>(in) + offsets[i];
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    };
    const auto store_four = [&](size_t i) {
      __m512i four = _mm512_castsi128_si512(item(i));
      four = _mm512_inserti64x2(four, item(i + 1), 1);
      four = _mm512_inserti64x2(four, item(i + 2), 2);
      four = _mm512_inserti64x2(four, item(i + 3), 3);
      _mm512_storeu_si512(to + i, four);
    };
#pragma GCC unroll 64
    for (size_t i = 0; i < full * lanes; i += 4) store_four(i);
    size_t i = full * lanes;
    for (; i + 4 <= count; i += 4) store_four(i);
    for (; i < count; ++i) _mm_storeu_si128(to + i, item(i));
  }
  if (ties) [[unlikely]]
    order_ties<T>(out, count, base, bits, leaf<T>);
}

}  // namespace

template <class T>
void leaf(const T* in, size_t count, uint64_t base, unsigned bits, T* out) {
  switch ((count + 31) / 32) {
    case 0:
      return;
    case 1:
      return leaf_of<2, 0>(in, count, base, bits, out);
    case 2:
      return leaf_of<4, 2>(in, count, base, bits, out);
    case 3:
      return leaf_of<6, 4>(in, count, base, bits, out);
    case 4:
      return leaf_of<8, 6>(in, count, base, bits, out);
    case 5:
      return leaf_of<10, 8>(in, count, base, bits, out);
    case 6:
      return leaf_of<12, 10>(in, count, base, bits, out);
    case 7:
      return leaf_of<14, 12>(in, count, base, bits, out);
    default:
      return leaf_of<16, 14>(in, count, base, bits, out);
  }
}

template <>
void leaf(const uint32_t* in, size_t count, uint64_t /*base*/, unsigned /*bits*/, uint32_t* out) {
  words(in, count, out);
}
template void leaf(const uint64_t*, size_t, uint64_t, unsigned, uint64_t*);
template void leaf(const KeyValue*, size_t, uint64_t, unsigned, KeyValue*);
template void leaf(const Key128*, size_t, uint64_t, unsigned, Key128*);

}  // namespace penstock::sorting::avx512

#endif
