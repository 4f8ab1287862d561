#pragma once

// What needs no distribution: an array that is backwards, one in order but for what was appended, and one that
// fits the cache. For in_place_sort.cc alone.

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>

#include "base/bits.h"
#include "sort/cache/cache_sort.h"
#include "sort/cache/quick_sort.h"
#include "sort/in_place/in_place_sort.h"
#include "sort/kernels/kernels.h"

namespace penstock::sorting {

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
  if (more == nullptr)
    return failure(ErrorCode::out_of_memory, "get memory to sort in", "appended items");
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

// So few that slots would cost more than quick sort's passes.
inline constexpr size_t quick_bytes_max = 32 << 10;  // on the stack
template <class T>
constexpr size_t quick_items_max = quick_bytes_max / sizeof(T);

template <class T>
void sort_quickly(const T* in, size_t count, T* out, const KeyOrder& order) {
  alignas(64) std::byte spare[quick_bytes_max];
  if (!order.plain()) {
    kernels<T>().encode(in, count, order, out);
  } else if (out != in) {
    std::memcpy(static_cast<void*>(out), in, count * sizeof(T));
  }
  // The leaves of numbers of 32 bits are sorted by these themselves, not by digests.
  const KeyRange keys =
      std::is_same_v<T, uint32_t> ? KeyRange{} : kernels<T>().range_of(out, count, {});
  quick_sort(out, count, reinterpret_cast<T*>(spare), keys);
  if (!order.plain()) kernels<T>().decode(out, count, order);
}

// On the stack, or with one allocation: no set-up that a small sort would feel.
template <class T>
Status sort_small(const T* in, size_t count, T* out, const InPlaceOptions& options) {
  if (count <= quick_items_max<T>) {
    sort_quickly(in, count, out, options.order);
    return {};
  }
  const KeyRange keys = kernels<T>().range_of(in, count, options.order);
  const Piece<T> piece = {in, count};
  size_t bytes = CacheSort<T>::bytes_needed(count);
  std::unique_ptr<void, decltype(&std::free)> memory(std::aligned_alloc(64, round_up(bytes, 64)),
                                                     &std::free);
  if (memory == nullptr)
    return failure(ErrorCode::out_of_memory, "get memory to sort in", "scratch memory");
  CacheSort<T> sorter(static_cast<std::byte*>(memory.get()), count, options.order);
  sorter.load({&piece, 1}, count, keys);
  sorter.store(out);
  return {};
}

}  // namespace penstock::sorting
