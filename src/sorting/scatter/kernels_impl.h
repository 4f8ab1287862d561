// This file is included once per instruction set, with PENSTOCK_TIER as the name of a namespace.
//
// How items are scattered at the speed of memory, step by step:
//
// 1. Storing each item at the end of its array reads, changes and writes back a cache line for a
//    few items, on as many pages as there are arrays. So items gather in one line of 256 bytes per
//    array, and a full line goes to memory at once, by non-temporal stores, which do not read what
//    they replace.
// 2. The state of an array is only the offset of its next item within all lines: storing an item
//    takes a load, a store, an addition and a store, and the offset's low bits show that the line
//    is full. The place of the next line is kept elsewhere and touched once a line; the owner of
//    the memory is asked for room, by a call through a pointer, only at the end of a room. So every
//    method of partitioning and every level of a sort shares this loop.
// 3. A thousand lines do not fit the first-level cache. Stores retire in order, so one that misses
//    holds up all behind it; loads do not. Bucket numbers are therefore computed for many items
//    before the first is stored, in vectors, and the place of the item after next is prefetched for
//    writing while this one is stored. That hides most of the misses: 1.6 ns an item with 1024
//    arrays of 64-bit keys instead of 2.5.
//
// Two things differ from use to use, and are parameters of a template: the number of an item, which
// decides how many items fit a vector, and the place of an item. Within the cache items need no
// lines: they go to slots. Any slot may be full, so each item is compared with its slot's end; and
// items are encoded on the way, because the next reader sorts them.

#include <algorithm>
#include <cstring>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "sorting/scatter/kernels.h"

namespace penstock::scatter::PENSTOCK_TIER {

#include "sorting/scatter/key_kernel.h"
#include "sorting/scatter/search_kernel.h"

namespace {

constexpr size_t batch_items = 256;  // between two checks of the number of spilled items
constexpr size_t read_ahead_bytes = 2048;

// ---- numbers of items

// The word of a key that is compared: with 32 bits, twice as many fit a vector.
template <class T>
using KeyWord =
    std::conditional_t<sizeof(T) == 4 || std::is_same_v<T, KeyValue32>, uint32_t, uint64_t>;

// Copies of a map's fields for a loop stay in registers, whatever it stores.
struct RangeNumbers {
  KeyRange range;
  uint64_t zero;
  unsigned shift;
  uint32_t multiplier;

  [[gnu::always_inline]] explicit RangeNumbers(const BucketMap& map)
      : range(map.range),
        zero(map.zero),
        shift(map.shift),
        multiplier(static_cast<uint32_t>(map.multiplier)) {}
};

template <bool clamped>
[[gnu::always_inline]] inline uint32_t number_by_range(uint64_t key, const RangeNumbers& map) {
  if constexpr (clamped) {
    key = key > map.range.low ? key : map.range.low;
    key = key < map.range.high ? key : map.range.high;
  }
  const auto place = static_cast<uint32_t>((key - map.zero) >> map.shift);
  return static_cast<uint32_t>(uint64_t{place} * map.multiplier >> 32);
}

template <bool plain, class T>
[[gnu::always_inline]] inline uint64_t encoded_key_of(const T& item, const KeyOrder& order) {
  if constexpr (plain) return key_of(item);
  if constexpr (!plain) return key_of(encode(item, order));
}

// Computes the buckets of `count` items, eight at a time if the processor can.
template <bool clamped, bool plain, class T>
[[gnu::always_inline]] inline void number_items_by_range(const T* items, size_t count,
                                                         const RangeNumbers& map,
                                                         const KeyOrder& order, uint32_t* numbers) {
  size_t i = 0;
#if defined(__AVX512F__)
  const __m512i lows = _mm512_set1_epi64(static_cast<long long>(map.range.low));
  const __m512i highs = _mm512_set1_epi64(static_cast<long long>(map.range.high));
  const __m512i zeros = _mm512_set1_epi64(static_cast<long long>(map.zero));
  const __m128i shifts = _mm_cvtsi32_si128(static_cast<int>(map.shift));
  const __m512i multipliers = _mm512_set1_epi64(map.multiplier);
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
    const uint64_t key = encoded_key_of<plain>(items[i], order);
    numbers[i] = number_by_range<clamped>(key, map);
  }
}

template <class Key>
[[gnu::always_inline]] inline SearchTree<Key> tree_of(const BucketMap& map) {
  if constexpr (sizeof(Key) == 4) {
    return {map.tree_32.data(), map.tree_levels, map.last_32};
  } else {
    return {map.tree.data(), map.tree_levels, static_cast<uint32_t>(map.splitters.size())};
  }
}

template <bool plain, class T, class Key>
[[gnu::always_inline]] inline void number_items_by_search(const T* items, size_t count,
                                                          const SearchTree<Key>& tree,
                                                          const KeyOrder& order,
                                                          uint32_t* numbers) {
  constexpr size_t group = 32;
  const auto key = [&](size_t i) __attribute__((always_inline)) {
    return static_cast<Key>(encoded_key_of<plain>(items[i], order));
  };
  alignas(64) Key keys[group];
  if (count == group) [[likely]] {
    if constexpr (plain && std::is_same_v<T, Key>) return search<group>(items, tree, numbers);
    for (size_t i = 0; i < group; ++i) keys[i] = key(i);
    return search<group>(keys, tree, numbers);
  }
  for (size_t i = 0; i < count; ++i) {
    keys[0] = key(i);
    search<1>(keys, tree, numbers + i);
  }
}

// Computes buckets by a function of one word of each key, which the compiler vectorizes.
template <class T, class Word, class Function>
[[gnu::always_inline]] inline void number_each(const T* items, size_t count, uint32_t* numbers,
                                               const Word& word, const Function& function) {
  for (size_t i = 0; i < count; ++i)
    numbers[i] = static_cast<uint32_t>(function(static_cast<KeyWord<T>>(word(items[i]))));
}

// ---- the loop

// Every load costs: it waits for earlier stores whose addresses have the same low 12 bits, and
// these go anywhere. So bucket numbers, and small items, are loaded two at a time and split: 5 to 8
// % faster. (Four numbers of 16 bits at a time gained nothing more.)
[[gnu::always_inline]] inline uint64_t load_two(const uint32_t* numbers) {
  uint64_t two;
  std::memcpy(&two, numbers, sizeof(two));
  return two;
}

// Numbers, prefetches and stores items: `number(items, count, numbers)`, `place(number)`, and
// `put(item, number)`. Three groups are in progress: one is numbered, the places of the next one
// are prefetched, and one is stored. `ahead` is read ahead behind the last item.
template <size_t group, class T, class Number, class Place, class Put>
[[gnu::always_inline]] inline void for_each_numbered(const T* items, size_t count, const T* ahead,
                                                     Number number, Place place, Put put) {
  constexpr size_t read_ahead_items = read_ahead_bytes / sizeof(T);
  alignas(64) uint32_t numbers[4][group];
  const size_t groups = count / group;
  const size_t read_ahead_here = std::min(count, read_ahead_items);
  const size_t ahead_from = (count - read_ahead_here) / group;
  size_t i = 0;
  if (groups > 2) {
    number(items, group, numbers[0]);
    number(items + group, group, numbers[1]);
    const T* next = items + read_ahead_items;
    for (size_t g = 0; g + 2 < groups; ++g, i += group, next += group) {
      number(items + i + 2 * group, group, numbers[(g + 2) % 4]);
      asm volatile("" : : "r"(numbers) : "memory");  // stored, not taken from vectors one by one
      if (g == ahead_from) [[unlikely]]
        next = ahead + (read_ahead_items - read_ahead_here);
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

// ---- to lines, and on to memory

// Stores a line past the caches.
template <size_t bytes>
[[gnu::always_inline]] inline void stream_line(std::byte* to, const std::byte* line) {
#if defined(__AVX512F__)
  for (size_t i = 0; i < bytes; i += 64) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i),
                        _mm512_load_si512(reinterpret_cast<const __m512i*>(line + i)));
  }
#elif defined(__x86_64__)
  for (size_t i = 0; i < bytes; i += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm_load_si128(reinterpret_cast<const __m128i*>(line + i)));
  }
#else
  std::memcpy(to, line, bytes);
#endif
}

inline std::byte* room_for_line(Lines& lines, uint32_t array, const std::byte* line,
                                size_t line_bytes) {
  Room& room = lines.rooms[array];
  if (room.next == room.limit) [[unlikely]]
    lines.maker.make(lines.maker.self, array, room, line);
  std::byte* const to = room.next;
  room.next = to + line_bytes;
  return to;
}

// `offset`: end of the line in which an item was stored, if it is a small one.
[[gnu::noinline]] void write_unusual_line(Lines& lines, uint32_t array, uint32_t offset) {
  if (offset % lines.line_bytes != 0) return;
  lines.at[array] = offset - lines.line_bytes;
  const std::byte* const line = lines.lines + lines.at[array];
  std::byte* const to = room_for_line(lines, array, line, lines.line_bytes);
  if (!lines.aligned) {
    std::memcpy(to, line, lines.line_bytes);
  } else {
    stream_line<static_cast<size_t>(LineBytes::large)>(to, line);
  }
}

// Scatters items numbered by `number(items, count, numbers)`.
template <size_t group, class T, class Number>
[[gnu::always_inline]] inline void scatter_numbered(const T* items, size_t count, Lines& lines,
                                                    const T* ahead, Number number) {
  std::byte* const base = lines.lines;
  uint32_t* const at = lines.at;
  const auto place = [&](uint32_t array)
                         __attribute__((always_inline)) { return base + at[array]; };
  const auto put = [&](const T& item, uint32_t array) __attribute__((always_inline)) {
    uint32_t offset = at[array];
    std::memcpy(base + offset, &item, sizeof(T));
    offset += static_cast<uint32_t>(sizeof(T));
    at[array] = offset;
    if (offset % small_line_bytes == 0) [[unlikely]] {
      // The compiler repeats this for each item of the loop, so only the usual case is inlined.
      if (!lines.usual) [[unlikely]]
        return write_unusual_line(lines, array, offset);
      at[array] = offset - static_cast<uint32_t>(small_line_bytes);
      const std::byte* const line = base + at[array];
      stream_line<small_line_bytes>(room_for_line(lines, array, line, small_line_bytes), line);
    }
  };
  for_each_numbered<group>(items, count, ahead, number, place, put);
}

// Each of the following is its own function: together they would want more registers than there
// are.
template <bool plain, class T>
[[gnu::noinline]] void scatter_by_range(const T* items, size_t count, const BucketMap& map,
                                        const KeyOrder& key_order, Lines& lines, const T* ahead) {
  const RangeNumbers range(map);
  const KeyOrder order = key_order;
  scatter_numbered<8>(items, count, lines, ahead,
                      [&](const T* in, size_t n, uint32_t* numbers) __attribute__((always_inline)) {
                        number_items_by_range<true, plain>(in, n, range, order, numbers);
                      });
}

template <bool plain, class T>
[[gnu::noinline]] void scatter_by_search(const T* items, size_t count, const BucketMap& map,
                                         const KeyOrder& key_order, Lines& lines, const T* ahead) {
  const auto tree = tree_of<KeyWord<T>>(map);
  const KeyOrder order = key_order;
  scatter_numbered<32>(items, count, lines, ahead,
                       [&](const T* in, size_t n, uint32_t* numbers)
                           __attribute__((always_inline)) {
                             number_items_by_search<plain>(in, n, tree, order, numbers);
                           });
}

template <bool plain, class T>
void scatter_in_order(const T* items, size_t count, const BucketMap& map, const KeyOrder& order,
                      Lines& lines, const T* ahead) {
  if (map.searches()) {
    scatter_by_search<plain>(items, count, map, order, lines, ahead);
  } else {
    scatter_by_range<plain>(items, count, map, order, lines, ahead);
  }
}

template <class T, class Word, class Function>
[[gnu::noinline]] void scatter_each(const T* items, size_t count, Lines& lines, const T* ahead,
                                    Word word, Function function) {
  scatter_numbered<8>(items, count, lines, ahead,
                      [&](const T* in, size_t n, uint32_t* numbers) __attribute__((always_inline)) {
                        number_each(in, n, numbers, word, function);
                      });
}

template <class T>
void scatter_lines(const T* items, size_t count, const BucketMap& map, const KeyOrder& order,
                   Lines& lines, const T* ahead) {
  using Kind = BucketMap::Kind;
  using Key = KeyWord<T>;
  if constexpr (!std::is_same_v<T, KeyValue32>) {
    if (!order.plain()) return scatter_in_order<false>(items, count, map, order, lines, ahead);
  }
  const auto first = [](const T& item) __attribute__((always_inline)) { return key_of(item); };
  const auto last = [](const T& item) __attribute__((always_inline)) { return low_word_of(item); };
  const auto all = [](const T& item) __attribute__((always_inline)) { return mixed_word_of(item); };
  const uint64_t zero = map.zero;
  const uint32_t mask = map.buckets - 1;
  const unsigned shift = map.shift;
  switch (map.kind) {
    case Kind::low_bits:
      return scatter_each(items, count, lines, ahead, last, [mask](Key key) { return key & mask; });
    case Kind::top_bits:
      return scatter_each(items, count, lines, ahead, first,
                          [shift](Key key) { return key >> shift; });
    case Kind::bit_field:
      return scatter_each(items, count, lines, ahead, first,
                          [=](uint64_t key) { return ((key - zero) >> shift) & mask; });
    case Kind::hash:
      return scatter_each(items, count, lines, ahead, all,
                          [=](uint64_t key) { return hash_of(key, zero) >> shift; });
    default:
      break;
  }
  scatter_in_order<true>(items, count, map, order, lines, ahead);
}

// ---- counting only

template <size_t group, class T, class Number>
[[gnu::always_inline]] inline void count_numbered(const T* items, size_t count, uint32_t* counts,
                                                  Number number) {
  alignas(64) uint32_t numbers[group];
  for (size_t i = 0; i < count; i += group) {
    const size_t here = std::min(group, count - i);
    number(items + i, here, numbers);
    asm volatile("" : : "r"(numbers) : "memory");  // stored, not taken from vectors one by one
    for (size_t k = 0; k < here; ++k) ++counts[numbers[k]];
  }
}

template <class T>
void count_items(const T* items, size_t count, const BucketMap& map, uint32_t* counts) {
  const KeyOrder plain;
  if (map.searches()) {
    const auto tree = tree_of<KeyWord<T>>(map);
    count_numbered<32>(items, count, counts,
                       [&](const T* in, size_t n, uint32_t* numbers)
                           __attribute__((always_inline)) {
                             number_items_by_search<true>(in, n, tree, plain, numbers);
                           });
  } else {
    const RangeNumbers range(map);
    count_numbered<32>(items, count, counts,
                       [&](const T* in, size_t n, uint32_t* numbers)
                           __attribute__((always_inline)) {
                             number_items_by_range<true, true>(in, n, range, plain, numbers);
                           });
  }
}

// ---- to slots

template <bool plain, class T>
bool scatter_slots_of(const T* items, size_t count, const BucketMap& map, const KeyOrder& key_order,
                      Slots<T>& slots, const T* ahead) {
  std::byte* const base = slots.base;
  auto* const fills = slots.fills;
  const RangeNumbers range(map);
  const KeyOrder order = key_order;
  T* const spilled = slots.spilled;
  size_t spilled_count = slots.spilled_count;
  const auto number = [&](const T* in, size_t n, uint32_t* numbers) __attribute__((always_inline)) {
    number_items_by_range<false, plain>(in, n, range, order, numbers);
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
  // Small batches, so that all of their items may be spilled.
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
constexpr Kernels<T> table = {scatter_lines<T>, scatter_slots<T>, count_items<T>};
template <>
constexpr Kernels<Key128> table<Key128> = {scatter_lines<Key128>, scatter_slots<Key128>};
// The sort converts pairs of 32 bits to words.
template <>
constexpr Kernels<KeyValue32> table<KeyValue32> = {scatter_lines<KeyValue32>, nullptr};

}  // namespace

template <class T>
const Kernels<T>& kernels() {
  return table<T>;
}
template const Kernels<uint32_t>& kernels();
template const Kernels<uint64_t>& kernels();
template const Kernels<KeyValue32>& kernels();
template const Kernels<KeyValue64>& kernels();
template const Kernels<Key128>& kernels();

}  // namespace penstock::scatter::PENSTOCK_TIER
