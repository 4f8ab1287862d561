// Included once per instruction set, with PENSTOCK_TIER as the name of a namespace.
//
// Distribution, from the naive loop upward:
//
// 1. Storing each item at the end of its array reads, changes and writes back a cache line for a
//    few items, on as many pages as there are arrays. So items gather in one line of 256 bytes per
//    array, and a full line goes to memory at once, by non-temporal stores, which do not read what
//    they replace.
// 2. The state of an array is the offset of its next item within all lines, nothing else: to store
//    an item takes a load, a store, an addition and a store, and that the line is full shows in the
//    offset's low bits. Where lines go is kept elsewhere and touched once a line.
// 3. A thousand lines do not fit the first-level cache. Stores retire in order, so one that misses
//    holds up all behind it; loads do not. Bucket numbers are therefore computed for many items
//    before the first is stored, in vectors, and the place of the item after next is prefetched for
//    writing while this one is stored. That hides most of the misses: 1.6 ns an item with 1024
//    arrays of 64-bit keys instead of 2.5.

#include <algorithm>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "sort/item_mix.h"
#include "sort/kernels.h"

namespace penstock::sorting::PENSTOCK_TIER {

#include "partition/search_kernel.h"
#include "partition/stream_line_kernel.h"

namespace {

constexpr size_t batch_items = 256;  // between two looks at how many are spilled
constexpr size_t read_ahead_bytes = 2048;

template <bool clamped>
[[gnu::always_inline]] inline uint32_t number_by_range(uint64_t key, const KeyRange& range,
                                                       uint64_t zero, unsigned shift,
                                                       uint32_t multiplier) {
  if constexpr (clamped) {
    key = key > range.low ? key : range.low;
    key = key < range.high ? key : range.high;
  }
  key -= zero;
  const auto place = static_cast<uint32_t>(key >> shift);
  return static_cast<uint32_t>(uint64_t{place} * multiplier >> 32);
}

#if defined(__AVX512F__)
alignas(64) constexpr uint64_t even_words[8] = {0, 2, 4, 6, 8, 10, 12, 14};
alignas(64) constexpr uint64_t odd_words[8] = {1, 3, 5, 7, 9, 11, 13, 15};

// The leading words of the keys of eight items.
[[gnu::always_inline]] inline __m512i load_keys(const uint64_t* items) {
  return _mm512_loadu_si512(items);
}
[[gnu::always_inline]] inline __m512i load_keys(const uint32_t* items) {
  return _mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(items)));
}
template <class Pair>
[[gnu::always_inline]] inline __m512i load_keys(const Pair* items) {
  const auto* words = reinterpret_cast<const uint64_t*>(items);
  const auto* lanes = std::is_same_v<Pair, Key128> ? odd_words : even_words;
  return _mm512_permutex2var_epi64(_mm512_loadu_si512(words), _mm512_load_si512(lanes),
                                   _mm512_loadu_si512(words + 8));
}

[[gnu::always_inline]] inline __m512i encode_keys(__m512i keys, const KeyOrder& order,
                                                  const uint64_t*) {
  keys = _mm512_rolv_epi64(keys, _mm512_set1_epi64(order.turn_bits));
  const __m512i negative = _mm512_srai_epi64(keys, 63);
  // keys ^ (negative & flip_if_negative) ^ flip
  const __m512i flip =
      _mm512_and_si512(negative, _mm512_set1_epi64(static_cast<long long>(order.flip_if_negative)));
  return _mm512_ternarylogic_epi64(keys, flip,
                                   _mm512_set1_epi64(static_cast<long long>(order.flip)), 0x96);
}
[[gnu::always_inline]] inline __m512i encode_keys(__m512i keys, const KeyOrder& order,
                                                  const uint32_t*) {
  const __m512i negative = _mm512_srai_epi64(_mm512_slli_epi64(keys, 32), 63);
  const __m512i flip =
      _mm512_and_si512(negative, _mm512_set1_epi64(static_cast<uint32_t>(order.flip_if_negative)));
  return _mm512_ternarylogic_epi64(keys, flip, _mm512_set1_epi64(static_cast<uint32_t>(order.flip)),
                                   0x96);
}
[[gnu::always_inline]] inline __m512i encode_keys(__m512i keys, const KeyOrder& order,
                                                  const KeyValue*) {
  return encode_keys(keys, order, static_cast<const uint64_t*>(nullptr));
}
[[gnu::always_inline]] inline __m512i encode_keys(__m512i keys, const KeyOrder& order,
                                                  const Key128*) {
  return encode_keys(keys, order, static_cast<const uint64_t*>(nullptr));
}
#endif

// The numbers of `count` items, eight at a time where the processor can.
template <bool clamped, bool plain, class T>
[[gnu::always_inline]] inline void number_items_by_range(const T* items, size_t count,
                                                         const BucketMap& map,
                                                         const KeyOrder& key_order,
                                                         uint32_t* numbers) {
  const KeyRange range = map.range;
  const uint64_t zero = map.zero;
  const unsigned shift = map.shift;
  const auto multiplier = static_cast<uint32_t>(map.multiplier);
  const KeyOrder order = key_order;
  size_t i = 0;
#if defined(__AVX512F__)
  const __m512i lows = _mm512_set1_epi64(static_cast<long long>(range.low));
  const __m512i highs = _mm512_set1_epi64(static_cast<long long>(range.high));
  const __m512i zeros = _mm512_set1_epi64(static_cast<long long>(zero));
  const __m128i shifts = _mm_cvtsi32_si128(static_cast<int>(shift));
  const __m512i multipliers = _mm512_set1_epi64(multiplier);
  for (; i + 8 <= count; i += 8) {
    __m512i keys = load_keys(items + i);
    if constexpr (!plain) keys = encode_keys(keys, order, items);
    if constexpr (clamped) keys = _mm512_max_epu64(keys, lows);
    if constexpr (clamped) keys = _mm512_min_epu64(keys, highs);
    keys = _mm512_sub_epi64(keys, zeros);
    keys = _mm512_mul_epu32(_mm512_srl_epi64(keys, shifts), multipliers);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(numbers + i),
                        _mm512_cvtepi64_epi32(_mm512_srli_epi64(keys, 32)));
  }
#endif
  for (; i < count; ++i) {
    const uint64_t key = key_of(plain ? items[i] : encode(items[i], order));
    numbers[i] = number_by_range<clamped>(key, range, zero, shift, multiplier);
  }
}

template <class T>
[[gnu::always_inline]] inline void number_items_by_search(const T* items, size_t count,
                                                          const BucketMap& map,
                                                          const KeyOrder& key_order,
                                                          uint32_t* numbers) {
  constexpr size_t group = 32;
  const KeyOrder order = key_order;
  const SearchTree<uint64_t> tree = {map.tree.data(), map.tree_levels, map.buckets - 1};
  alignas(64) uint64_t keys[group];
  if (count == group) [[likely]] {
    for (size_t i = 0; i < group; ++i) keys[i] = key_of(encode(items[i], order));
    return search<group>(keys, tree, numbers);
  }
  for (size_t i = 0; i < count; ++i) {
    keys[0] = key_of(encode(items[i], order));
    search<1>(keys, tree, numbers + i);
  }
}

template <class T>
void write_line(Lines<T>& lines, uint32_t bucket, const std::byte* line) {
  auto& destination = lines.destinations[bucket];
  if (destination.next == destination.limit) [[unlikely]]
    lines.make_room(lines.self, bucket, destination);
  auto* to = reinterpret_cast<std::byte*>(destination.next);
  if (lines.aligned) {
    stream_line<Lines<T>::line_bytes>(to, line);
  } else {
    std::memcpy(to, line, Lines<T>::line_bytes);
  }
  destination.next += Lines<T>::line_items;
}

// Every load costs: it waits for earlier stores whose addresses have the same low 12 bits, and
// these go anywhere. So bucket numbers, and small items, are loaded two at a time and taken apart:
// 5 to 8 %. (Four numbers of 16 bits at a time gained nothing more.)
[[gnu::always_inline]] inline uint64_t load_two(const uint32_t* numbers) {
  uint64_t two;
  std::memcpy(&two, numbers, sizeof(two));
  return two;
}

// Numbers, prefetches and stores items: `number(items, count, numbers)`, `place(number)`, and
// `put(item, number)`. Three groups are under way: one is numbered, the places of the next one are
// prefetched, and one is stored. `ahead` follows the items in memory's stead.
template <size_t group, class T, class Number, class Place, class Put>
[[gnu::always_inline]] inline void for_each_numbered(const T* items, size_t count, const T* ahead,
                                                     Number number, Place place, Put put) {
  constexpr size_t read_ahead_items = read_ahead_bytes / sizeof(T);
  alignas(64) uint32_t numbers[4][group];
  const size_t groups = count / group;
  size_t i = 0;
  if (groups > 2) {
    number(items, group, numbers[0]);
    number(items + group, group, numbers[1]);
    for (size_t g = 0; g + 2 < groups; ++g, i += group) {
      number(items + i + 2 * group, group, numbers[(g + 2) % 4]);
      const T* next = items + i + read_ahead_items;
      if (next >= items + count) next = ahead + (next - (items + count));
#pragma GCC unroll 16
      for (size_t byte = 0; byte < group * sizeof(T); byte += 64)
        __builtin_prefetch(reinterpret_cast<const char*>(next) + byte);
      const uint32_t* following = numbers[(g + 1) % 4];
#pragma GCC unroll 32
      for (size_t k = 0; k < group; k += 2) {
        const uint64_t two = load_two(following + k);
        __builtin_prefetch(place(static_cast<uint32_t>(two)), 1, 3);
        __builtin_prefetch(place(static_cast<uint32_t>(two >> 32)), 1, 3);
      }
      const uint32_t* here = numbers[g % 4];
#pragma GCC unroll 32
      for (size_t k = 0; k < group; k += 2) {
        const uint64_t two = load_two(here + k);
        if constexpr (std::is_same_v<T, uint32_t>) {
          const uint64_t two_items = load_two(items + i + k);
          put(static_cast<uint32_t>(two_items), static_cast<uint32_t>(two));
          put(static_cast<uint32_t>(two_items >> 32), static_cast<uint32_t>(two >> 32));
        } else {
          put(items[i + k], static_cast<uint32_t>(two));
          put(items[i + k + 1], static_cast<uint32_t>(two >> 32));
        }
      }
    }
  }
  for (; i < count; i += group) {
    const size_t here = std::min(group, count - i);
    number(items + i, here, numbers[0]);
    for (size_t k = 0; k < here; ++k) put(items[i + k], numbers[0][k]);
  }
}

template <class T>
void scatter_lines(const T* items, size_t count, const BucketMap& map, const KeyOrder& order,
                   Lines<T>& lines, const T* ahead) {
  constexpr size_t line_bytes = Lines<T>::line_bytes;
  std::byte* const base = lines.lines;
  uint32_t* const at = lines.at;
  const auto place = [&](uint32_t bucket)
                         __attribute__((always_inline)) { return base + at[bucket]; };
  const auto put = [&](const T& item, uint32_t bucket) __attribute__((always_inline)) {
    uint32_t offset = at[bucket];
    std::memcpy(base + offset, &item, sizeof(T));
    offset += static_cast<uint32_t>(sizeof(T));
    at[bucket] = offset;
    if (offset % line_bytes == 0) [[unlikely]] {
      at[bucket] = offset - static_cast<uint32_t>(line_bytes);
      write_line(lines, bucket, base + offset - line_bytes);
    }
  };
  if (map.searches()) {
    for_each_numbered<32>(
        items, count, ahead,
        [&](const T* in, size_t n, uint32_t* numbers)
            __attribute__((always_inline)) { number_items_by_search(in, n, map, order, numbers); },
        place, put);
  } else if (order.plain()) {
    for_each_numbered<8>(
        items, count, ahead,
        [&](const T* in, size_t n, uint32_t* numbers) __attribute__((always_inline)) {
          number_items_by_range<true, true>(in, n, map, order, numbers);
        },
        place, put);
  } else {
    for_each_numbered<8>(
        items, count, ahead,
        [&](const T* in, size_t n, uint32_t* numbers) __attribute__((always_inline)) {
          number_items_by_range<true, false>(in, n, map, order, numbers);
        },
        place, put);
  }
}

template <bool plain, class T>
bool scatter_slots_of(const T* items, size_t count, const BucketMap& map, const KeyOrder& key_order,
                      Slots<T>& slots, const T* ahead) {
  std::byte* const base = slots.base;
  auto* const fills = slots.fills;
  const KeyOrder order = key_order;
  T* const spilled = slots.spilled;
  size_t spilled_count = slots.spilled_count;
  const auto number = [&](const T* in, size_t n, uint32_t* numbers) __attribute__((always_inline)) {
    number_items_by_range<false, plain>(in, n, map, order, numbers);
  };
  const auto place = [&](uint32_t bucket)
                         __attribute__((always_inline)) { return base + fills[bucket].at; };
  const auto put = [&](const T& raw, uint32_t bucket) __attribute__((always_inline)) {
    const T item = plain ? raw : encode(raw, order);
    auto& fill = fills[bucket];
    const uint32_t offset = fill.at;
    if (offset == fill.end) [[unlikely]] {
      spilled[spilled_count++] = item;
    } else {
      std::memcpy(base + offset, &item, sizeof(T));
      fill.at = offset + static_cast<uint32_t>(sizeof(T));
    }
  };
  // So few at a time that all of them may be spilled.
  for (size_t start = 0; start < count; start += batch_items) {
    const size_t here = std::min(batch_items, count - start);
    if (spilled_count > (slots.read_count + start) / 8 + batch_items) return false;
    const T* in = items + start;
    for_each_numbered<8>(in, here, start + here < count ? in + here : ahead, number, place, put);
  }
  slots.spilled_count = spilled_count;
  slots.read_count += count;
  return true;
}

template <class T>
bool scatter_slots(const T* items, size_t count, const BucketMap& map, const KeyOrder& order,
                   Slots<T>& slots, const T* ahead) {
  return order.plain() ? scatter_slots_of<true>(items, count, map, order, slots, ahead)
                       : scatter_slots_of<false>(items, count, map, order, slots, ahead);
}

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

template <class T>
KeyRange range_of_items(const T* items, size_t count, const KeyOrder& key_order) {
  const KeyOrder order = key_order;
  uint64_t low = ~uint64_t{0};
  uint64_t high = 0;
  size_t i = 0;
#if defined(__AVX512F__)
  __m512i lows = _mm512_set1_epi64(-1);
  __m512i highs = _mm512_setzero_si512();
  for (; i + 8 <= count; i += 8) {
    const __m512i keys = encode_keys(load_keys(items + i), order, items);
    lows = _mm512_min_epu64(lows, keys);
    highs = _mm512_max_epu64(highs, keys);
  }
  low = _mm512_reduce_min_epu64(lows);
  high = _mm512_reduce_max_epu64(highs);
#endif
  for (; i < count; ++i) {
    const uint64_t key = key_of(encode(items[i], order));
    low = low < key ? low : key;
    high = high > key ? high : key;
  }
  return {low, high};
}

#if defined(__AVX512F__)
// Whether the keys of items [i, i + 128) are in order, and the last of those before them, which is
// in `before`.
template <bool plain, class T>
[[gnu::always_inline]] inline bool block_ascends(const T* items, const KeyOrder& order,
                                                 __m512i& before) {
  __mmask8 wrong = 0;
#pragma GCC unroll 16
  for (size_t k = 0; k < 128; k += 8) {
    __m512i keys = load_keys(items + k);
    if constexpr (!plain) keys = encode_keys(keys, order, items);
    const __m512i shifted = _mm512_alignr_epi64(keys, before, 7);
    wrong = static_cast<__mmask8>(wrong | _mm512_cmplt_epu64_mask(keys, shifted));
    before = keys;
  }
  return wrong == 0;
}

template <bool plain, class T>
size_t ascending_blocks(const T* items, size_t count, const KeyOrder& key_order) {
  const KeyOrder order = key_order;
  __m512i before = _mm512_setzero_si512();
  size_t i = 0;
  for (; i + 128 <= count; i += 128) {
    __builtin_prefetch(items + i + read_ahead_bytes / sizeof(T));
    if (!block_ascends<plain>(items + i, order, before)) break;
  }
  return i;
}
#endif

// By blocks without branches; the end of the order is then looked for within one.
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

// A vector at a time: eight places, one gather, and one compression of what is not found there. The
// counters are incremented one by one, those of what was not found as well, so that no branch
// depends on the data.
template <class T>
size_t take_out_heavy(const T* in, size_t count, const HeavyKeys& heavy, HeavyTally& tally,
                      T* out) {
  constexpr uint32_t turns = HeavyTally::turns;
  constexpr uint32_t nowhere = HeavyKeys::places;
  uint64_t* const counts = tally.counts;
  size_t others = 0;
  size_t i = 0;
#if defined(__AVX512F__)
  const __m512i factor = _mm512_set1_epi64(0x9e3779b1u);
  const __m512i last = _mm512_set1_epi64(HeavyKeys::places - 1);
  const __m512i not_found = _mm512_set1_epi64(nowhere);
  const __m512i turn = _mm512_set_epi64(3, 2, 1, 0, 3, 2, 1, 0);
  const auto step = [&](const T* items) __attribute__((always_inline)) {
    const __m512i keys = load_keys(items);
    const __m512i folded = _mm512_add_epi64(keys, _mm512_srli_epi64(keys, 32));
    const __m512i places =
        _mm512_and_si512(_mm512_srli_epi64(_mm512_mul_epu32(folded, factor), 20), last);
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
    _mm512_store_si512(at, _mm512_or_si512(_mm512_slli_epi64(counted, 2), turn));
#pragma GCC unroll 8
    for (const uint64_t counter : at) ++counts[counter];
  };
  static_assert(turns == 4);
  for (; i + 16 <= count; i += 16) {
    __builtin_prefetch(in + i + read_ahead_bytes / sizeof(T));
    step(in + i);
    step(in + i + 8);
  }
#endif
  for (; i < count; ++i) {
    const T item = in[i];
    const uint32_t place = HeavyKeys::place_of(item);
    const bool missing = heavy.keys[place] != item;
    out[others] = item;
    others += missing;
    ++counts[(missing ? nowhere : place) * turns + i % turns];
  }
  return others;
}

#if defined(__AVX512F__)
// Words and squares of some items, whose words of 64 bits are added up apart: the even ones and the
// odd ones.
struct VectorSum {
  __m512i words = _mm512_setzero_si512();
  __m512i halves = _mm512_setzero_si512();  // the upper ones of these
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
  // Pairs: each square twice.
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
    // Of a Key128 the low word comes first.
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

// A text as words of 64 bits, the last ones filled up with zeros, eight words a block. The sum over a
// block, of each word and the product of its halves, to each of which a key of its place is added
// first: so a change of one half shows whatever the other one is.
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

template <class T>
constexpr auto take_out_heavy_if_number() -> decltype(Kernels<T>::take_out_heavy) {
  if constexpr (std::is_integral_v<T>) return take_out_heavy<T>;
  return nullptr;
}

template <class T>
constexpr Kernels<T> table = {
    scatter_lines<T>,   scatter_slots<T>,   encode_items<T>,  decode_items<T>,
    range_of_items<T>,  ascending_items<T>, reverse_items<T>, take_out_heavy_if_number<T>(),
    add_items_to_sum<T>};

}  // namespace

uint64_t mix_of_bytes(const char* at, size_t bytes) {
  constexpr size_t block_bytes = block_words * sizeof(uint64_t);
  uint64_t mix = (bytes + 1) * mix_offset;  // never what mix_of() would make a zero
  for (; bytes > block_bytes; at += block_bytes, bytes -= block_bytes)
    mix = mix_of(sum_of_block(at, block_bytes), mix);
  return mix_of(sum_of_block(at, bytes), mix);
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
