#include "sorting/sort/cache/quick_sort.h"

#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>

#include "base/random.h"
#include "os/cpu.h"
#include "sorting/sort/leaf/leaf.h"

namespace penstock::sorting {
namespace {

// Keys as numbers, for arithmetic on ranges.
template <class T>
struct Number {
  using type = uint64_t;
  static type of(const T& item) { return key_of(item); }
  static T item(type number) {
    if constexpr (std::is_same_v<T, KeyValue>) {
      return {.key = number, .value = 0};
    } else {
      return static_cast<T>(number);
    }
  }
  static uint64_t leading(type number) { return number; }
  static type least_of(uint64_t leading) { return leading; }
  static type greatest_of(uint64_t leading) {
    return std::is_same_v<T, uint32_t> && leading > ~uint32_t{0} ? ~uint32_t{0} : leading;
  }
};
template <>
struct Number<Key128> {
  using type = __uint128_t;
  static type of(const Key128& item) { return (type{item.high} << 64) | item.low; }
  static Key128 item(type number) {
    return {.low = static_cast<uint64_t>(number), .high = static_cast<uint64_t>(number >> 64)};
  }
  static uint64_t leading(type number) { return static_cast<uint64_t>(number >> 64); }
  static type least_of(uint64_t high) { return type{high} << 64; }
  static type greatest_of(uint64_t high) { return type{high} << 64 | ~uint64_t{0}; }
};

template <class T>
class QuickSort {
  using N = Number<T>;
  using Key = typename N::type;

 public:
  explicit QuickSort(PartitionByPivot<T> partition)
      : partition_(partition), leaf_(leaf_sort<T>()) {}

  // Sorts items with keys in [least, greatest], which are in `result` or in `other`, to `result`.
  void sort(T* result, T* other, size_t count, bool in_result, Key least, Key greatest,
            unsigned levels_left) {
    for (;;) {
      T* items = in_result ? result : other;
      if (least == greatest || count <= 1) {
        if (!in_result) std::copy_n(items, count, result);
        return;
      }
      if (count <= leaf_items_max) return leaf(result, other, count, in_result, least, greatest);
      Key pivot = least + (greatest - least) / 2;
      if (levels_left > 0) {
        --levels_left;
        pivot = sampled(items, count, least, greatest);
      }
      // The ranges below `split` and from it on can both contain keys.
      const Key split = pivot == least ? pivot + 1 : pivot;
      const size_t below = partition_(items, count, N::item(split), result, other);
      const size_t rest = count - below;
      sort(result, other + rest, below, true, least, split - 1, levels_left);
      // Copy other[0, rest) to result + below.
      result += below;
      count = rest;
      in_result = false;
      least = split;
    }
  }

 private:
  static constexpr size_t sample_max = 127;
  // Random offset of each sample within its part of the items, in 2^32ths of the part.
  static constexpr auto places = [] {
    std::array<uint32_t, sample_max> random{};
    for (size_t i = 0; i < sample_max; ++i) random[i] = static_cast<uint32_t>(mix64(i) >> 32);
    return random;
  }();

  void leaf(T* result, T* other, size_t count, bool in_result, Key least, Key greatest) {
    if constexpr (std::is_same_v<T, uint32_t>)
      return leaf_(in_result ? result : other, count, 0, 0, result);  // needs no second array
    const uint64_t base = N::leading(least);
    const auto bits = static_cast<unsigned>(std::bit_width(N::leading(greatest) - base));
    leaf_(in_result ? result : other, count, base, bits, in_result ? other : result);
    if (in_result) std::copy_n(other, count, result);
  }

  Key sampled(const T* items, size_t count, Key least, Key greatest) const {
    T sample[sample_max];
    T ordered[sample_max];
    const size_t size = count < 4096 ? 31 : sample_max;
    const size_t stride = count / size;
    for (size_t i = 0; i < size; ++i)
      sample[i] = items[i * stride + static_cast<size_t>(uint64_t{places[i]} * stride >> 32)];
    const uint64_t base = N::leading(least);
    leaf_(sample, size, base, static_cast<unsigned>(std::bit_width(N::leading(greatest) - base)),
          ordered);
    return N::of(ordered[size / 2]);
  }

  PartitionByPivot<T> partition_;
  LeafSort<T> leaf_;
};

template <class T>
PartitionByPivot<T> partition_for_cpu() {
#if defined(__x86_64__)
  if (os::cpu_tier() >= os::CpuTier::avx512) return avx512::partition_by_pivot<T>;
  if (os::cpu_tier() >= os::CpuTier::avx2) return avx2::partition_by_pivot<T>;
#endif
  return portable::partition_by_pivot<T>;
}

template <class T>
void sort_to_result(T* result, T* other, size_t count, bool in_result, const KeyRange& keys) {
  const auto levels = 2 * static_cast<unsigned>(std::bit_width(count / (leaf_items_max / 2)));
  QuickSort<T>(partition_for_cpu<T>())
      .sort(result, other, count, in_result, Number<T>::least_of(keys.low),
            Number<T>::greatest_of(keys.high), levels);
}

}  // namespace

// Writes the item to both places, and advances one of the positions: no branch depends on the data.
template <class T>
size_t portable::partition_by_pivot(const T* items, size_t count, const T& pivot, T* below,
                                    T* rest) {
  size_t below_count = 0;
  for (size_t i = 0; i < count; ++i) {
    const T item = items[i];
    below[below_count] = item;
    rest[i - below_count] = item;
    below_count += less(item, pivot);
  }
  return below_count;
}

template <class T>
void quick_sort(T* data, size_t count, T* spare, const KeyRange& keys) {
  sort_to_result(data, spare, count, true, keys);
}

template <class T>
void quick_sort_to(T* data, size_t count, T* out, const KeyRange& keys) {
  sort_to_result(out, data, count, false, keys);
}

template void quick_sort(uint32_t*, size_t, uint32_t*, const KeyRange&);
template void quick_sort_to(uint32_t*, size_t, uint32_t*, const KeyRange&);
template void quick_sort(uint64_t*, size_t, uint64_t*, const KeyRange&);
template void quick_sort_to(uint64_t*, size_t, uint64_t*, const KeyRange&);
template void quick_sort(KeyValue*, size_t, KeyValue*, const KeyRange&);
template void quick_sort_to(KeyValue*, size_t, KeyValue*, const KeyRange&);
template void quick_sort(Key128*, size_t, Key128*, const KeyRange&);
template void quick_sort_to(Key128*, size_t, Key128*, const KeyRange&);
template size_t portable::partition_by_pivot(const uint32_t*, size_t, const uint32_t&, uint32_t*,
                                             uint32_t*);
template size_t portable::partition_by_pivot(const uint64_t*, size_t, const uint64_t&, uint64_t*,
                                             uint64_t*);
template size_t portable::partition_by_pivot(const KeyValue*, size_t, const KeyValue&, KeyValue*,
                                             KeyValue*);
template size_t portable::partition_by_pivot(const Key128*, size_t, const Key128&, Key128*,
                                             Key128*);

}  // namespace penstock::sorting
