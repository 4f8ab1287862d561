#include "penstock/sort.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <vector>

#include "base/out_of_memory.h"
#include "penstock/base.h"
#include "sorting/scatter/key_order.h"
#include "sorting/scatter/key_order_of.h"
#include "sorting/sort/count_sort.h"
#include "sorting/sort/in_place/in_place_sort.h"

// The public calls: each type is an unsigned word, or a pair of words, in some KeyOrder.

namespace penstock::sort_internal {
namespace {

using sorting::InPlaceOptions;
using sorting::KeyOrder;
using sorting::KeyValue;

template <class T>
constexpr bool counted = sizeof(T) <= 2;

// If items of equal keys cannot be told apart, every sort is stable.
template <class T>
InPlaceOptions options_for(const SortOptions& options) {
  return {.order = sorting::key_order_of<T>(options.descending),
          .stable = options.stable && std::is_same_v<T, KeyValue64>,
          .threads = options.threads};
}

// The leading 64 bits of the key, as an unsigned number in the requested order.
template <class T>
uint64_t rank_of(const T& item, const KeyOrder& order) {
  if constexpr (counted<T>) {
    const uint64_t rank = static_cast<uint64_t>(int64_t{item}) ^ (uint64_t{1} << 63);
    return order.flip >> 1 != 0 && order.flip % 2 != 0 ? ~rank : rank;
  } else {
    return sorting::key_of(sorting::encode(std::bit_cast<sorting::ItemOf<T>>(item), order));
  }
}

// A stable sort of KeyValue32: as pairs of 64 bits, ordered by the keys only.
template <class From>
Status sort_wide(const KeyValue32* in, size_t count, const SortOptions& options, From give_back) {
  std::unique_ptr<KeyValue[]> wide(new (std::nothrow) KeyValue[count]);
  if (wide == nullptr) return out_of_memory();
  for (size_t i = 0; i < count; ++i) wide[i] = {in[i].key, in[i].value};
  if (auto status = sorting::sort_in_place(wide.get(), count, options_for<KeyValue64>(options));
      !status)
    return status;
  for (size_t i = 0; i < count; ++i) {
    give_back(i,
              KeyValue32{static_cast<uint32_t>(wide[i].key), static_cast<uint32_t>(wide[i].value)});
  }
  return {};
}

}  // namespace

template <Sortable T>
Status sort_to(const T* in, size_t count, T* out, const SortOptions& options) {
  return or_out_of_memory([&] {
    if constexpr (counted<T>) {
      return sorting::count_sort(in, count, out, options.descending);
    } else {
      if constexpr (std::is_same_v<T, KeyValue32>) {
        if (options.stable) {
          return sort_wide(in, count, options,
                           [out](size_t i, const KeyValue32& item) { out[i] = item; });
        }
      }
      return sorting::sort_to(reinterpret_cast<const sorting::ItemOf<T>*>(in), count,
                              reinterpret_cast<sorting::ItemOf<T>*>(out), options_for<T>(options));
    }
  });
}

template <Sortable T>
Status sort(T* items, size_t count, const SortOptions& options) {
  return sort_to<T>(items, count, items, options);
}

template <Sortable T>
Status sort_first(T* items, size_t count, size_t first, const SortOptions& options) {
  return or_out_of_memory([&] {
    if constexpr (counted<T>) {
      return sorting::count_sort(items, count, items, options.descending);
    } else {
      if (std::is_same_v<T, KeyValue32> && options.stable) return sort<T>(items, count, options);
      InPlaceOptions in_place = options_for<T>(options);
      in_place.first = first;
      auto* seen = reinterpret_cast<sorting::ItemOf<T>*>(items);
      return sorting::sort_in_place(seen, count, in_place);
    }
  });
}

template <Sortable T>
Status argsort(const T* keys, size_t count, uint64_t* order, const SortOptions& options) {
  return or_out_of_memory([&]() -> Status {
    std::unique_ptr<KeyValue[]> pairs(new (std::nothrow) KeyValue[count]);
    if (pairs == nullptr) return out_of_memory();
    const KeyOrder ranking = sorting::key_order_of<T>(options.descending);
    for (size_t i = 0; i < count; ++i) {
      uint64_t rank = rank_of(keys[i], ranking);
      if constexpr (std::is_same_v<T, KeyValue32>) rank &= ~uint64_t{0} << 32;
      pairs[i] = {rank, i};
    }
    if (auto status = sorting::sort_in_place(pairs.get(), count,
                                             {.stable = true, .threads = options.threads});
        !status)
      return status;
    if constexpr (std::is_same_v<T, Key128>) {
      // Runs of one high word, by the low word.
      for (size_t start = 0; start < count;) {
        size_t end = start + 1;
        while (end < count && pairs[end].key == pairs[start].key) ++end;
        if (end - start > 1) {
          for (size_t i = start; i < end; ++i) {
            uint64_t low = keys[pairs[i].value].low;
            pairs[i].key = options.descending ? ~low : low;
          }
          if (auto status =
                  sorting::sort_in_place(pairs.get() + start, end - start, {.stable = true});
              !status)
            return status;
        }
        start = end;
      }
    }
    for (size_t i = 0; i < count; ++i) order[i] = pairs[i].value;
    return {};
  });
}

#define PENSTOCK_INSTANTIATE(T)                                          \
  template Status sort<T>(T*, size_t, const SortOptions&);               \
  template Status sort_to<T>(const T*, size_t, T*, const SortOptions&);  \
  template Status sort_first<T>(T*, size_t, size_t, const SortOptions&); \
  template Status argsort<T>(const T*, size_t, uint64_t*, const SortOptions&);
PENSTOCK_FOR_SORTABLE(PENSTOCK_INSTANTIATE)
#undef PENSTOCK_INSTANTIATE

}  // namespace penstock::sort_internal

namespace penstock {

// Filters blocks of the input by the greatest of the candidates so far; when as many candidates
// again have come, they are sorted and the worse half is dropped.
template <Sortable T>
Status top_k(std::span<const T> in, std::span<T> out, const SortOptions& options) {
  const size_t wanted = out.size();
  if (wanted > in.size())
    return failure(ErrorCode::invalid_argument, "find the first items", "the output",
                   "no more items than there are");
  if (wanted == 0) return {};
  return or_out_of_memory([&]() -> Status {
    const size_t room = std::max<size_t>(2 * wanted, 4096);
    if (in.size() <= room) {
      std::vector<T> all(in.begin(), in.end());
      if (auto status = partial_sort(all, wanted, options); !status) return status;
      std::copy_n(all.begin(), wanted, out.begin());
      return {};
    }
    std::vector<T> candidates;
    candidates.reserve(room);
    const auto order = sorting::key_order_of<T>(options.descending);
    uint64_t limit = ~uint64_t{0};
    for (const T& item : in) {
      if (sort_internal::rank_of(item, order) > limit) continue;
      candidates.push_back(item);
      if (candidates.size() < room) continue;
      if (auto status =
              sort_internal::sort_first(candidates.data(), candidates.size(), wanted, options);
          !status)
        return status;
      candidates.resize(wanted);
      limit = sort_internal::rank_of(candidates.back(), order);
    }
    if (auto status = partial_sort(candidates, wanted, options); !status) return status;
    std::copy_n(candidates.begin(), wanted, out.begin());
    return {};
  });
}

#define PENSTOCK_INSTANTIATE(T) \
  template Status top_k<T>(std::span<const T>, std::span<T>, const SortOptions&);
PENSTOCK_FOR_SORTABLE(PENSTOCK_INSTANTIATE)
#undef PENSTOCK_INSTANTIATE

}  // namespace penstock
