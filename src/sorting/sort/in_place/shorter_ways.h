#pragma once

// Sorts without a distribution: of an array that is backwards, of one in order except for appended
// items or items out of place, and of one that fits the cache. For in_place_sort.cc only.

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

// Whether the first items go both up and down: then the array is neither in order, nor backwards,
// nor in order up to its end. Most arrays do, and the search for the end of the order would be
// noticeable for a small one.
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

// Sorts a backwards array. REQUIRES: `k.ascending` said that it is not in order.
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

// Least ratio of all items to appended ones. Those are sorted apart and merged, from the end.
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
    // Find the first item above this one, in steps that double.
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

// A sort of an array in order except for a few items, such as events of which some come late.
// (Drop-merge sort: those few are set aside, and merged as if they had been appended.)
//
// If an item is below the last one that was kept, one of the two is out of place: if the one before
// the last fits, the last one is set aside. A row of items that are too small
// is set aside, unless fewer items stand above it: then those are, and the row is examined again. A
// row is weighed each time that it has doubled. The next one begins behind it, or is shorter,
// because the greatest of a row stays when it is examined again: so this ends.
inline constexpr size_t aside_items_min = 1 << 14;
inline constexpr size_t aside_row_min = 8;

// Copies the items in order to the front of `out`, all others behind them, and returns how many are
// in order. At most 1 in `appended_share` is not, or it has given up: then `out` contains all items
// as well, unless 0 is returned. REQUIRES: in == out, or the two do not overlap.
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
  // An item out of place usually makes one descent; and a sample may have a few too many.
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

// Size at which slots cost more than quick sort's passes.
inline constexpr size_t quick_bytes_max = 32 << 10;  // on the stack
template <class T>
constexpr size_t quick_items_max = quick_bytes_max / sizeof(T);

// Limit for quick sort's passes on items that are too many for slots, which take more memory than
// the items, and few for a distribution through memory: passes by vectors over numbers of 32 bits
// are so cheap that a dozen of them take less time.
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
  // The leaves of numbers of 32 bits sort the numbers themselves, not digests.
  const KeyRange keys =
      std::is_same_v<T, uint32_t> ? KeyRange{} : kernels<T>().range_of(out, count, {});
  quick_sort(out, count, spare, keys);
  if (!order.plain()) kernels<T>().decode(out, count, order);
}

template <class T>
Status sort_by_passes(const T* in, size_t count, T* out, const KeyOrder& order) {
  if (count <= quick_items_max<T>) {
    // This fetches more than the processor does ahead of the first samples and the first pass.
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

// Sorts with one allocation: other preparations would be noticeable in a small sort.
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
