#pragma once

// What needs no distribution: an array that is backwards, one in order but for what was appended or stands out of
// place, and one that fits the cache. For in_place_sort.cc alone.

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>

#include "base/bits.h"
#include "base/out_of_memory.h"
#include "base/random.h"
#include "os/cpu.h"
#include "sorting/sort/cache/cache_sort.h"
#include "sorting/sort/cache/quick_sort.h"
#include "sorting/sort/in_place/in_place_plan.h"
#include "sorting/sort/in_place/in_place_sort.h"
#include "sorting/sort/kernels/kernels.h"

namespace penstock::sorting {

// Whether the first items go up and down: then the array is not in order, nor backwards, nor in order but for its end. Most
// arrays do, and a small one would feel what it takes to find the end of its order.
template <class T>
bool goes_up_and_down(const T* in, size_t count, const KeyOrder& order) {
  constexpr size_t looked_at = 6;
  if (count < 2 * looked_at) return false;
  unsigned up = 0;
  unsigned down = 0;
  T before = encode(in[0], order);
  for (size_t i = 1; i < looked_at; ++i) {
    const T item = encode(in[i], order);
    up |= less(before, item);
    down |= less(item, before);
    before = item;
  }
  return (up & down) != 0;
}

// An array that is backwards, as far as `k.ascending` said that it is not in order.
template <class T>
bool sort_reversed(const T* in, size_t count, T* out, const InPlaceOptions& options) {
  const Kernels<T>& k = kernels<T>();
  if (k.ascending(in, count, options.order.reversed()) != count) return false;
  if (out != in) std::memcpy(static_cast<void*>(out), in, count * sizeof(T));
  k.reverse(out, count);
  if (!options.stable || !std::is_same_v<T, KeyValue>) return true;
  // Equal keys have changed places, too.
  for (size_t start = 0; start < count;) {
    const uint64_t key = key_of(out[start]);
    size_t end = start + 1;
    while (end < count && key_of(out[end]) == key) ++end;
    std::reverse(out + start, out + end);
    start = end;
  }
  return true;
}

// What was appended to an array in order, if it is little: sorted apart and merged, from the end.
inline constexpr size_t appended_share = 64;

template <class T>
Status sort_appended(T* items, size_t in_order, size_t count, const InPlaceOptions& options) {
  const size_t appended = count - in_order;
  std::unique_ptr<T[]> more(new (std::nothrow) T[appended]);
  if (more == nullptr) return out_of_memory();
  InPlaceOptions all = options;
  all.first = ~uint64_t{0};
  if (auto status = sort_in_place(items + in_order, appended, all); !status) return status;
  std::memcpy(static_cast<void*>(more.get()), items + in_order, appended * sizeof(T));
  const auto above = [&](const T& item, const T& other) {
    return less(encode(other, options.order), encode(item, options.order));
  };
  size_t end = in_order;  // [0, end) is not merged yet
  for (size_t left = appended; left > 0; --left) {
    const T& item = more[left - 1];
    // The first one above the item, looked for in steps that double.
    size_t step = 1;
    while (step < end && above(items[end - step], item)) step *= 2;
    size_t low = step < end ? end - step : 0;
    size_t high = end - step / 2;
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      if (above(items[middle], item)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    std::memmove(static_cast<void*>(items + low + left), items + low, (end - low) * sizeof(T));
    end = low;
    items[end + left - 1] = item;
  }
  return {};
}

// An array in order but for a few items, as events are some of which come late. (Drop-merge sort: those few are set
// aside, and merged as if they had been appended.)
//
// An item below the last one that was kept is out of place, or that one is: if the one before it fits, the last one
// goes. Of a row of items that are too small, all go, unless fewer stand above them: then those do, and the row is
// looked at again. A row is weighed each time that it has doubled. The next one begins behind it, or is shorter, because
// the greatest of a row stays when it is looked at again: so this comes to an end.
inline constexpr size_t aside_items_min = 1 << 14;
inline constexpr size_t aside_row_min = 8;

// Copies those in order to the front of `out`, all others behind them, and returns how many are in order. They are all but
// 1 of `appended_share`, or it has given up: then `out` holds all items as well, unless 0 is returned.
// REQUIRES: in == out, or the two do not overlap.
template <class T>
size_t set_aside(const T* in, size_t count, T* out, const InPlaceOptions& options) {
  const auto below = [&](const T& item, const T& other) {
    return less(encode(item, options.order), encode(other, options.order));
  };
  if (count < aside_items_min || (options.stable && std::is_same_v<T, KeyValue>)) return 0;
  const size_t sampled = std::clamp<size_t>(count / 256, 64, 1024);
  Random random(count);
  size_t descents = 0;
  for (size_t i = 0; i < sampled; ++i) {
    const size_t at = random.below(count - 1);
    descents += below(in[at + 1], in[at]);
  }
  // An item out of place gives one, as a rule; and a sample may have a few too many.
  if (descents * 4 * appended_share > sampled * 5) return 0;
  const size_t aside_max = count / appended_share;
  std::unique_ptr<T[]> aside(new (std::nothrow) T[aside_max]);
  if (aside == nullptr) return 0;
  const auto copy = [](T* to, const T* from, size_t items) {
    std::memmove(static_cast<void*>(to), from, items * sizeof(T));
  };

  // Invariant: read == kept + apart, and items [read - row, read) are still in `in`.
  size_t read = 0;
  size_t kept = 0;
  size_t apart = 0;
  size_t row = 0;
  while (read < count && apart < aside_max) {
    if (kept == 0 || !below(in[read], out[kept - 1])) {
      const size_t ascending = kernels<T>().ascending(in + read, count - read, options.order);
      if (out + kept != in + read) copy(out + kept, in + read, ascending);
      kept += ascending;
      read += ascending;
      row = 0;
      continue;
    }
    if (row == 0 && (kept == 1 || !below(in[read], out[kept - 2]))) {
      aside[apart++] = out[--kept];
      continue;
    }
    aside[apart++] = in[read++];
    ++row;
    if (row < aside_row_min || !std::has_single_bit(row)) continue;
    const T greatest = *std::max_element(in + read - row, in + read, below);
    const T* above = std::upper_bound(out, out + kept, greatest, below);
    const auto too_great = static_cast<size_t>(out + kept - above);
    if (too_great > row || apart - row + too_great > aside_max) continue;
    read -= row;
    apart -= row;
    copy(aside.get() + apart, above, too_great);
    apart += too_great;
    kept -= too_great;
    row = 0;
  }
  if (in != out && read < count) copy(out + read, in + read, count - read);
  copy(out + kept, aside.get(), apart);
  return kept;
}

// So few that slots would cost more than quick sort's passes.
inline constexpr size_t quick_bytes_max = 32 << 10;  // on the stack
template <class T>
constexpr size_t quick_items_max = quick_bytes_max / sizeof(T);

// What is too much for slots, which take more memory than the items, and little for a distribution through memory: passes
// over numbers of 32 bits by vectors cost so little that a dozen of them take less time.
inline constexpr size_t passes_bytes_max = 4 * MiB;
template <class T>
bool sorted_by_passes(size_t count) {
  if (count <= quick_items_max<T>) return true;
  return std::is_same_v<T, uint32_t> && count > cache_bytes_max / sizeof(T) &&
         count <= passes_bytes_max / sizeof(T) && os::cpu_tier() >= os::CpuTier::avx2;
}

// `spare`: room for as many items.
template <class T>
void sort_quickly(const T* in, size_t count, T* out, T* spare, const KeyOrder& order) {
  if (!order.plain()) {
    kernels<T>().encode(in, count, order, out);
  } else if (out != in) {
    std::memcpy(static_cast<void*>(out), in, count * sizeof(T));
  }
  // The leaves of numbers of 32 bits are sorted by these themselves, not by digests.
  const KeyRange keys =
      std::is_same_v<T, uint32_t> ? KeyRange{} : kernels<T>().range_of(out, count, {});
  quick_sort(out, count, spare, keys);
  if (!order.plain()) kernels<T>().decode(out, count, order);
}

template <class T>
Status sort_by_passes(const T* in, size_t count, T* out, const KeyOrder& order) {
  if (count <= quick_items_max<T>) {
    // More than the processor fetches ahead of the first samples and the first pass.
    const size_t bytes = count * sizeof(T);
    for (size_t at = 0; bytes > quick_bytes_max / 4 && at < bytes; at += 64)
      __builtin_prefetch(reinterpret_cast<const char*>(in) + at, 0, 2);
    alignas(64) std::byte spare[quick_bytes_max];
    sort_quickly(in, count, out, reinterpret_cast<T*>(spare), order);
    return {};
  }
  std::unique_ptr<T[]> spare(new (std::nothrow) T[count]);
  if (spare == nullptr) return out_of_memory();
  sort_quickly(in, count, out, spare.get(), order);
  return {};
}

// With one allocation: no set-up that a small sort would feel.
template <class T>
Status sort_small(const T* in, size_t count, T* out, const InPlaceOptions& options) {
  const KeyRange keys = kernels<T>().range_of(in, count, options.order);
  const Piece<T> piece = {in, count};
  size_t bytes = CacheSort<T>::bytes_needed(count);
  std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(64, round_up(bytes, 64)),
                                                     &std::free);
  if (memory == nullptr) return out_of_memory();
  CacheSort<T> sorter(static_cast<std::byte*>(memory.get()), count, options.order);
  sorter.load({&piece, 1}, count, keys);
  sorter.store(out);
  return {};
}

}  // namespace penstock::sorting
