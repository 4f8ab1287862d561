// This file is included once per instruction set, with PENSTOCK_TIER as the name of a namespace.

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "sorting/sort/item_mix.h"
#include "sorting/sort/kernels/kernels.h"

namespace penstock::sorting::PENSTOCK_TIER {

#include "sorting/scatter/key_kernel.h"

namespace {

constexpr size_t read_ahead_bytes = 2048;

template <class T>
void encode_items(const T* from, size_t count, const KeyOrder& key_order, T* to) {
  const KeyOrder order = key_order;
  for (size_t i = 0; i < count; ++i) to[i] = encode(from[i], order);
}

template <class T>
void decode_items(T* items, size_t count, const KeyOrder& key_order) {
  const KeyOrder order = key_order;
  for (size_t i = 0; i < count; ++i) items[i] = decode(items[i], order);
}

#if defined(__AVX2__) && !defined(__AVX512F__)
// Loads the leading words of the keys of four items, in some order.
[[gnu::always_inline]] inline __m256i load_four_keys(const uint64_t* items) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(items));
}
template <class Pair>
[[gnu::always_inline]] inline __m256i load_four_keys(const Pair* items) {
  const auto* vectors = reinterpret_cast<const __m256i*>(items);
  const __m256i a = _mm256_loadu_si256(vectors);
  const __m256i b = _mm256_loadu_si256(vectors + 1);
  return std::is_same_v<Pair, Key128> ? _mm256_unpackhi_epi64(a, b) : _mm256_unpacklo_epi64(a, b);
}
#endif

template <class T>
KeyRange range_of_items(const T* items, size_t count, const KeyOrder& key_order) {
  // Twice as many words of 32 bits fit a vector, and not every processor compares 64.
  using Key = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  const KeyOrder order = key_order;
  Key low = ~Key{0};
  Key high = 0;
  size_t i = 0;
#if defined(__AVX512F__)
  __m512i lows = _mm512_set1_epi64(-1);
  __m512i highs = _mm512_setzero_si512();
  for (; i + 8 <= count; i += 8) {
    const __m512i keys = encode_keys(load_keys(items + i), order, items);
    lows = _mm512_min_epu64(lows, keys);
    highs = _mm512_max_epu64(highs, keys);
  }
  low = static_cast<Key>(_mm512_reduce_min_epu64(lows));
  high = static_cast<Key>(_mm512_reduce_max_epu64(highs));
#elif defined(__AVX2__)
  // AVX2 has no minimum of 64 bits: a signed comparison and a selection replace it, with a latency
  // that other chains hide.
  if constexpr (sizeof(T) > 4) {
    if (order.plain()) {
      constexpr size_t chains = 4;
      constexpr uint64_t sign = uint64_t{1} << 63;
      const auto of = [](uint64_t word) {
        return _mm256_set1_epi64x(static_cast<long long>(word));
      };
      __m256i lows[chains];
      __m256i highs[chains];
      for (size_t k = 0; k < chains; ++k) lows[k] = of(~sign);
      for (size_t k = 0; k < chains; ++k) highs[k] = of(sign);
      for (; i + 4 * chains <= count; i += 4 * chains) {
#pragma GCC unroll 4
        for (size_t k = 0; k < chains; ++k) {
          const __m256i keys = _mm256_xor_si256(load_four_keys(items + i + 4 * k), of(sign));
          lows[k] = _mm256_blendv_epi8(lows[k], keys, _mm256_cmpgt_epi64(lows[k], keys));
          highs[k] = _mm256_blendv_epi8(highs[k], keys, _mm256_cmpgt_epi64(keys, highs[k]));
        }
      }
      uint64_t ends[2][chains][4];
      std::memcpy(ends[0], lows, sizeof(lows));
      std::memcpy(ends[1], highs, sizeof(highs));
      for (size_t k = 0; k < 4 * chains; ++k) {
        low = std::min(low, ends[0][k / 4][k % 4] ^ sign);
        high = std::max(high, ends[1][k / 4][k % 4] ^ sign);
      }
    }
  }
#endif
  for (; i < count; ++i) {
    const auto key = static_cast<Key>(key_of(encode(items[i], order)));
    low = low < key ? low : key;
    high = high > key ? high : key;
  }
  return {low, high};
}

#if defined(__AVX512F__)
template <bool plain, class T>
[[gnu::always_inline]] inline __m512i keys_at(const T* items, const KeyOrder& order) {
  const __m512i keys = load_keys(items);
  if constexpr (plain) return keys;
  return encode_keys(keys, order, items);
}

// Mask of the next eight keys that are less than the key before. `before` has the last of the
// vectors before them, and then these.
template <bool plain, class T>
[[gnu::always_inline]] inline __mmask8 descents_at(const T* items, const KeyOrder& order,
                                                   __m512i& before) {
  const __m512i keys = keys_at<plain>(items, order);
  const __m512i shifted = _mm512_alignr_epi64(keys, before, 7);
  before = keys;
  return _mm512_cmplt_epu64_mask(keys, shifted);
}

// Whether the keys of items [i, i + 128), and the last one before them, which is in `before`, are
// in order.
template <bool plain, class T>
[[gnu::always_inline]] inline bool block_ascends(const T* items, const KeyOrder& order,
                                                 __m512i& before) {
  __mmask8 wrong = 0;
#pragma GCC unroll 16
  for (size_t k = 0; k < 128; k += 8)
    wrong = static_cast<__mmask8>(wrong | descents_at<plain>(items + k, order, before));
  return wrong == 0;
}

// One page of each of four streams: a single stream does not use memory's full speed.
template <class T>
constexpr size_t ascending_page = 4096 / sizeof(T);
constexpr size_t ascending_streams = 4;

// Whether the keys of the next four pages, and of the item before them, are in order.
template <bool plain, class T>
[[gnu::always_inline]] inline bool pages_ascend(const T* items, const KeyOrder& order) {
  constexpr size_t page = ascending_page<T>;
  __m512i before[ascending_streams];
#pragma GCC unroll 4
  for (size_t s = 0; s < ascending_streams; ++s)
    before[s] = keys_at<plain>(items + s * page - 8, order);
  __mmask8 wrong = 0;
  for (size_t k = 0; k < page; k += 8) {
#pragma GCC unroll 4
    for (size_t s = 0; s < ascending_streams; ++s) {
      const T* const at = items + s * page + k;
      __builtin_prefetch(at + ascending_streams * page);
      wrong = static_cast<__mmask8>(wrong | descents_at<plain>(at, order, before[s]));
    }
  }
  return wrong == 0;
}

template <bool plain, class T>
size_t ascending_blocks(const T* items, size_t count, const KeyOrder& key_order) {
  constexpr size_t pages = ascending_streams * ascending_page<T>;
  const KeyOrder order = key_order;
  __m512i before = _mm512_setzero_si512();
  size_t i = 0;
  for (; i + 128 <= count; i += 128) {
    // (Most arrays are not in order, which a short check shows.)
    if (i == pages) {
      while (i + pages <= count && pages_ascend<plain>(items + i, order)) i += pages;
      if (i + 128 > count) break;
      before = keys_at<plain>(items + i - 8, order);
    }
    if (!block_ascends<plain>(items + i, order, before)) break;
  }
  return i;
}
#endif

// Works by blocks without branches, and finds the end of the order within one.
template <class T>
size_t ascending_items(const T* items, size_t count, const KeyOrder& key_order) {
  const KeyOrder order = key_order;
  size_t i = 0;
#if defined(__AVX512F__)
  if constexpr (!std::is_same_v<T, Key128>) {
    i = order.plain() ? ascending_blocks<true>(items, count, order)
                      : ascending_blocks<false>(items, count, order);
  } else
#endif
  {
    constexpr size_t block = 64;
    for (; i + block < count; i += block) {
      unsigned wrong = 0;
      for (size_t k = i; k < i + block; ++k)
        wrong |= less(encode(items[k + 1], order), encode(items[k], order));
      if (wrong != 0) break;
    }
  }
  for (i = std::max<size_t>(i, 1); i < count; ++i) {
    if (less(encode(items[i], order), encode(items[i - 1], order))) return i;
  }
  return count;
}

template <class T>
void reverse_items(T* items, size_t count) {
  T* front = items;
  T* back = items + count;
#if defined(__AVX512F__)
  // A vector from either end at a time.
  constexpr size_t lanes = 64 / sizeof(T);
  alignas(64) constexpr uint32_t reversed32[16] = {15, 14, 13, 12, 11, 10, 9, 8,
                                                   7,  6,  5,  4,  3,  2,  1, 0};
  alignas(64) constexpr uint64_t reversed64[8] = {7, 6, 5, 4, 3, 2, 1, 0};
  alignas(64) constexpr uint64_t reversed128[8] = {6, 7, 4, 5, 2, 3, 0, 1};
  const auto reversed = [&](const T* from) __attribute__((always_inline)) {
    const __m512i vector = _mm512_loadu_si512(from);
    if constexpr (sizeof(T) == 4)
      return _mm512_permutexvar_epi32(_mm512_load_si512(reversed32), vector);
    if constexpr (sizeof(T) == 8)
      return _mm512_permutexvar_epi64(_mm512_load_si512(reversed64), vector);
    return _mm512_permutexvar_epi64(_mm512_load_si512(reversed128), vector);
  };
  for (; static_cast<size_t>(back - front) >= 2 * lanes; front += lanes) {
    back -= lanes;
    const __m512i last = reversed(back);
    _mm512_storeu_si512(back, reversed(front));
    _mm512_storeu_si512(front, last);
  }
#endif
  std::reverse(front, back);
}

#if defined(__AVX512F__)
// Copies the items that are not `leader` to `to`, in order, from whole vectors; returns their
// number. REQUIRES: room for one vector more.
[[gnu::always_inline]] inline size_t copy_others(const uint64_t* items, uint64_t leader,
                                                 uint64_t* to) {
  const __m512i v = _mm512_loadu_si512(items);
  const __mmask8 others =
      _mm512_cmpneq_epi64_mask(v, _mm512_set1_epi64(static_cast<long long>(leader)));
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi64(others, v));
  return static_cast<size_t>(__builtin_popcount(others));
}
[[gnu::always_inline]] inline size_t copy_others(const uint32_t* items, uint64_t leader,
                                                 uint32_t* to) {
  const __m512i v = _mm512_loadu_si512(items);
  const __mmask16 others = _mm512_cmpneq_epi32_mask(v, _mm512_set1_epi32(static_cast<int>(leader)));
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(others, v));
  return static_cast<size_t>(__builtin_popcount(others));
}
#endif

// Works on a vector at a time: eight places, one gather, and one compression of the keys that are
// not found. The counters are incremented one by one, also those of keys not found, so that no
// branch depends on the data.
//
// If one key leads, items are compared with it first: only the others, moved together by a few
// compressions, are looked up. These usually do not repeat within few steps, so that one counter a
// place is enough, and all counters fit the first-level cache.
template <class T>
size_t take_out_heavy(const T* in, size_t count, const HeavyKeys& heavy, HeavyTally& tally,
                      T* out) {
  constexpr uint32_t turns = HeavyTally::turns;
  constexpr uint32_t nowhere = HeavyTally::nowhere;
  size_t others = 0;
  const auto take = [&](T item, size_t turn) __attribute__((always_inline)) {
    const uint32_t place = HeavyKeys::place_of(item);
    const bool missing = heavy.keys[place] != item;
    out[others] = item;
    others += missing;
    ++tally.counts[turn][missing ? nowhere : place];
  };
  size_t i = 0;
#if defined(__AVX512F__)
  static_assert(turns == 4);
  constexpr long long turn_places = HeavyKeys::places + 1;
  const __m512i turn = _mm512_set_epi64(3 * turn_places, 2 * turn_places, turn_places, 0,
                                        3 * turn_places, 2 * turn_places, turn_places, 0);
  const __m512i lower_factor = _mm512_set1_epi64(HeavyKeys::lower_factor);
  const __m512i upper_factor = _mm512_set1_epi64(HeavyKeys::upper_factor);
  const __m512i last = _mm512_set1_epi64(HeavyKeys::places - 1);
  const __m512i not_found = _mm512_set1_epi64(nowhere);
  uint64_t* const counts = tally.counts[0];
  const auto step = [&](const T* items, __m512i first_counters) __attribute__((always_inline)) {
    const __m512i keys = load_keys(items);
    __m512i products = _mm512_mul_epu32(keys, lower_factor);
    if constexpr (sizeof(T) == 8) {
      const __m512i upper = _mm512_mul_epu32(_mm512_srli_epi64(keys, 32), upper_factor);
      products = _mm512_add_epi64(products, upper);
    }
    const __m512i places =
        _mm512_and_si512(_mm512_srli_epi64(products, HeavyKeys::place_shift), last);
    const __m512i found = _mm512_i64gather_epi64(places, heavy.keys, 8);
    const __mmask8 missing = _mm512_cmpneq_epi64_mask(found, keys);
    const __m512i rest = _mm512_maskz_compress_epi64(missing, keys);
    if constexpr (sizeof(T) == 8) {
      _mm512_storeu_si512(out + others, rest);
    } else {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + others), _mm512_cvtepi64_epi32(rest));
    }
    others += static_cast<size_t>(__builtin_popcount(missing));
    alignas(64) uint64_t at[8];
    const __m512i counted = _mm512_mask_mov_epi64(places, missing, not_found);
    _mm512_store_si512(at, _mm512_add_epi64(counted, first_counters));
#pragma GCC unroll 8
    for (const uint64_t counter : at) ++counts[counter];
  };
  if (heavy.one_leads) {
    constexpr size_t vector = 64 / sizeof(T);
    constexpr size_t block = 8 * vector;
    const __m512i first_turn = _mm512_setzero_si512();
    T kept[8 + block + vector];
    size_t kept_count = 0;
    uint64_t leaders = 0;
    for (; i + block <= count; i += block) {
      const size_t before = kept_count;
#pragma GCC unroll 8
      for (size_t k = 0; k < block; k += vector) {
        __builtin_prefetch(in + i + k + read_ahead_bytes / sizeof(T));
        kept_count += copy_others(in + i + k, heavy.leader, kept + kept_count);
      }
      leaders += block - (kept_count - before);
      size_t done = 0;
      for (; done + 8 <= kept_count; done += 8) step(kept + done, first_turn);
      kept_count -= done;
      for (size_t k = 0; k < 8; ++k) kept[k] = kept[done + k];
    }
    for (size_t k = 0; k < kept_count; ++k) take(kept[k], 0);
    tally.counts[0][HeavyKeys::place_of(heavy.leader)] += leaders;
  } else {
    for (; i + 16 <= count; i += 16) {
      __builtin_prefetch(in + i + read_ahead_bytes / sizeof(T));
      step(in + i, turn);
      step(in + i + 8, turn);
    }
  }
#endif
  for (; i < count; ++i) take(in[i], i % turns);
  return others;
}

template <class T>
void fill_items(T* out, size_t count, const T& item) {
  const T value = item;
  size_t i = 0;
#if defined(__AVX512F__)
  constexpr size_t vector = 64 / sizeof(T);
  if constexpr (std::is_integral_v<T>) {
    const __m512i all = sizeof(T) == 8 ? _mm512_set1_epi64(static_cast<long long>(value))
                                       : _mm512_set1_epi32(static_cast<int>(value));
    for (; i < count && reinterpret_cast<uintptr_t>(out + i) % 64 != 0; ++i) out[i] = value;
    for (; i + vector <= count; i += vector)
      _mm512_stream_si512(reinterpret_cast<__m512i*>(out + i), all);
  }
#endif
  for (; i < count; ++i) out[i] = value;
}

#if defined(__AVX512F__)
// Words and squares of some items; words of 64 bits are added up separately: the even ones and the
// odd ones.
struct VectorSum {
  __m512i words = _mm512_setzero_si512();
  __m512i halves = _mm512_setzero_si512();  // sums of the words' upper halves
  __m512i squares = _mm512_setzero_si512();

  [[gnu::always_inline]] void add(__m512i items, const uint32_t*) {
    const __m512i upper = _mm512_srli_epi64(items, 32);
    words = _mm512_add_epi64(words, items);
    halves = _mm512_add_epi64(halves, upper);
    squares = _mm512_add_epi64(
        squares, _mm512_add_epi64(_mm512_mul_epu32(items, items), _mm512_mul_epu32(upper, upper)));
  }
  [[gnu::always_inline]] void add(__m512i items, const uint64_t*) {
    const __m512i fold = _mm512_add_epi64(items, _mm512_shuffle_epi32(items, _MM_PERM_ENUM(0xb1)));
    words = _mm512_add_epi64(words, items);
    squares = _mm512_add_epi64(squares, _mm512_mul_epu32(fold, fold));
  }
  // Pairs: each square counts twice.
  template <class Pair>
  [[gnu::always_inline]] void add(__m512i items, const Pair*) {
    const __m512i fold = _mm512_add_epi32(items, _mm512_shuffle_epi32(items, _MM_PERM_ENUM(0xb1)));
    const __m512i both = _mm512_add_epi32(fold, _mm512_shuffle_epi32(fold, _MM_PERM_ENUM(0x4e)));
    words = _mm512_add_epi64(words, items);
    squares = _mm512_add_epi64(squares, _mm512_mul_epu32(both, both));
  }

  static uint64_t total(__m512i numbers, __mmask8 of = 0xff) {
    return static_cast<uint64_t>(_mm512_mask_reduce_add_epi64(of, numbers));
  }
  ItemSum sum(const uint32_t*) const {
    const uint64_t upper = total(halves);
    return {0, total(words) - (upper << 32) + upper, total(squares)};
  }
  ItemSum sum(const uint64_t*) const { return {0, total(words), total(squares)}; }
  template <class Pair>
  ItemSum sum(const Pair*) const {
    constexpr __mmask8 even = 0x55;
    constexpr __mmask8 odd = 0xaa;
    // A Key128 has its low word first.
    const bool swapped = std::is_same_v<Pair, Key128>;
    return {0, total(words, swapped ? odd : even) + total(words, swapped ? even : odd) * mix_factor,
            total(squares, even)};
  }
};
#endif

template <class T>
void add_items_to_sum(const T* items, size_t count, ItemSum& sum) {
  ItemSum here;
  size_t i = 0;
#if defined(__AVX512F__)
  constexpr size_t step = 64 / sizeof(T);
  if (count >= 2 * step) {
    VectorSum first;
    VectorSum second;
    for (; i + 2 * step <= count; i += 2 * step) {
      __builtin_prefetch(items + i + read_ahead_bytes / sizeof(T));
      first.add(_mm512_loadu_si512(items + i), items);
      __builtin_prefetch(items + i + step + read_ahead_bytes / sizeof(T));
      second.add(_mm512_loadu_si512(items + i + step), items);
    }
    here = first.sum(items);
    here += second.sum(items);
  }
#endif
  for (; i < count; ++i) here += sum_of_one(items[i]);
  here.items = count;
  sum += here;
}

// A text is words of 64 bits, the last ones filled with zeros, eight words a block. The sum over a
// block is of each word and the product of its halves, each of which is first added to a key of its
// place: so a change of one half shows whatever the other one is.
constexpr size_t block_words = 8;
alignas(64) constexpr uint64_t text_keys[block_words] = {
    0x9e3779b97f4a7c15u, 0xbf58476d1ce4e5b9u, 0x94d049bb133111ebu, 0xd6e8feb86659fd93u,
    0xa0761d6478bd642fu, 0xe7037ed1a0b428dbu, 0x8ebc6af09c88c6e3u, 0x589965cc75374cc3u};

// REQUIRES: at most a block.
[[gnu::always_inline]] inline uint64_t sum_of_block(const char* at, size_t bytes) {
#if defined(__AVX512F__)
  const __mmask64 mask = bytes == 0 ? 0 : ~uint64_t{0} >> (64 - bytes);
  const __m512i words = _mm512_maskz_loadu_epi8(mask, at);
  const __m512i keyed = _mm512_add_epi32(words, _mm512_load_si512(text_keys));
  const __m512i products = _mm512_mul_epu32(keyed, _mm512_srli_epi64(keyed, 32));
  return static_cast<uint64_t>(_mm512_reduce_add_epi64(_mm512_add_epi64(words, products)));
#else
  uint64_t words[block_words] = {};
  if (bytes > 0) std::memcpy(words, at, bytes);
  uint64_t sum = 0;
  for (size_t i = 0; i < block_words; ++i) {
    const auto low = static_cast<uint32_t>(words[i]) + static_cast<uint32_t>(text_keys[i]);
    const auto high =
        static_cast<uint32_t>(words[i] >> 32) + static_cast<uint32_t>(text_keys[i] >> 32);
    sum += words[i] + uint64_t{low} * high;
  }
  return sum;
#endif
}

// The bytes of a key in a window, with zeros behind its end.
struct WindowOfKey {
  alignas(32) uint8_t bytes[SeenBytes::window_max];
  size_t count;  // bytes up to the key's end
  bool zeros;    // whether they contain a zero

  [[gnu::always_inline]] inline WindowOfKey(std::string_view key, size_t from, size_t window) {
    const size_t left = key.size() <= from ? 0 : key.size() - from;
    count = left < window ? left : window;
    const char* at = left == 0 ? "" : key.data() + from;
#if defined(__AVX512F__)
    const auto mask = static_cast<__mmask32>((uint64_t{1} << count) - 1);
    const __m256i all = _mm256_maskz_loadu_epi8(mask, at);
    _mm256_store_si256(reinterpret_cast<__m256i*>(bytes), all);
    zeros = _mm256_mask_testn_epi8_mask(mask, all, all) != 0;
#else
    std::memset(bytes, 0, sizeof(bytes));
    std::memcpy(bytes, at, count);
    zeros = std::memchr(bytes, 0, count) != nullptr;
#endif
  }
};

template <class T>
constexpr auto take_out_heavy_if_number() -> decltype(Kernels<T>::take_out_heavy) {
  if constexpr (std::is_integral_v<T>) return take_out_heavy<T>;
  return nullptr;
}

template <class T>
constexpr Kernels<T> table = {encode_items<T>,    decode_items<T>,    range_of_items<T>,
                              ascending_items<T>, reverse_items<T>,   take_out_heavy_if_number<T>(),
                              fill_items<T>,      add_items_to_sum<T>};

}  // namespace

uint64_t mix_of_bytes(const char* at, size_t bytes) {
  constexpr size_t block_bytes = block_words * sizeof(uint64_t);
  uint64_t mix = (bytes + 1) * mix_offset;  // mix_of() can make no zero of it
  for (; bytes > block_bytes; at += block_bytes, bytes -= block_bytes)
    mix = mix_of(sum_of_block(at, block_bytes), mix);
  return mix_of(sum_of_block(at, bytes), mix);
}

// Works on eight bytes a round: the zeros behind an end stand for it, and count.
void look_at_keys(std::span<const std::string_view> keys, size_t from, size_t window,
                  SeenBytes& seen) {
  constexpr size_t round = 8;
  static_assert(SeenBytes::window_max % round == 0);
  size_t least = seen.bytes_min;
  size_t most = seen.bytes_max;
  bool zeros = seen.zeros;
  for (const std::string_view key : keys) {
    const WindowOfKey part(key, from, window);
    least = key.size() < least ? key.size() : least;
    most = key.size() > most ? key.size() : most;
    zeros |= part.zeros;
    for (size_t first = 0; first < part.count; first += round) {
#pragma GCC unroll 8
      for (size_t i = first; i < first + round; ++i) seen.at[i][part.bytes[i]] = 1;
    }
  }
  seen.bytes_min = least;
  seen.bytes_max = most;
  seen.zeros = zeros;
}

namespace {

// Compiled for each window, so that a key costs only the sum.
template <size_t window>
void number_keys_of(std::span<const std::string_view> keys, size_t from, const WorthOfBytes* worth,
                    uint64_t* numbers) {
  for (const std::string_view key : keys) {
    const WindowOfKey part(key, from, window);
    uint64_t number = 0;
#pragma GCC unroll 32
    for (size_t i = 0; i < window; ++i) number += worth[i].of[part.bytes[i]];
    *numbers++ = number;
  }
}

using NumberKeysOf = void (*)(std::span<const std::string_view>, size_t, const WorthOfBytes*,
                              uint64_t*);
template <size_t... windows>
constexpr NumberKeysOf number_keys_of_all(size_t window, std::index_sequence<windows...>) {
  constexpr NumberKeysOf all[] = {number_keys_of<windows>...};
  return all[window];
}

}  // namespace

void number_keys(std::span<const std::string_view> keys, size_t from, size_t window,
                 const WorthOfBytes* worth, uint64_t* numbers) {
  constexpr auto windows = std::make_index_sequence<SeenBytes::window_max + 1>();
  number_keys_of_all(window, windows)(keys, from, worth, numbers);
}

const Kernels<uint32_t>& kernels_u32() {
  return table<uint32_t>;
}
const Kernels<uint64_t>& kernels_u64() {
  return table<uint64_t>;
}
const Kernels<KeyValue>& kernels_kv() {
  return table<KeyValue>;
}
const Kernels<Key128>& kernels_key128() {
  return table<Key128>;
}

}  // namespace penstock::sorting::PENSTOCK_TIER
