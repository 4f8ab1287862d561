#pragma once

// Sorting in memory, in place, with several threads for larger arrays.
//
//   std::vector<uint64_t> keys = ...;
//   if (auto status = penstock::sort(keys); !status) return status;  // with the namespace, or
//                                                                    // std::sort is found as well
//   auto status = penstock::sort(keys, {.threads = 8, .descending = true});
//
// Any memory that can be written will do: malloc, new, mmap, a mapped file, an array of NumPy.
// Pages are neither moved nor remapped; outside of the items nothing is written.
//
// Items: unsigned and signed integers of 8 to 64 bits of any type name, characters, std::byte and
// enumerations by their numbers, float and double (in a total order, that of files: -inf < ... < -0
// < +0 < ... < inf < NaN < -NaN), pairs of a key and a value (penstock/base.h), keys of 128 bits,
// records of any fixed size with a key of bytes, and views of strings.
//
// Memory besides the items, at most: for n bytes of items of 4 bytes or more, n / 50 + 32 MiB, and
// 32 MiB for each thread, from 1 GiB up; below 1 GiB, n bytes, or 3 MiB if that is more. Threads
// that this memory does not suffice for are not started. Functions that take more say so.
//
// Time: O(n), with one pass over memory per level, two levels up to 2^31 items. One pass detects
// items that are already in order, or backwards, or all equal; two passes handle items of which at
// most one in 64 is out of order (in a stable sort of pairs: if those are at the end).
//
// Errors: out_of_memory, with all items there, though possibly in another order. Thread safety:
// calls about different arrays may run at the same time.
//
// Source: C. Hanel, A. Arman, D. Xiao, J. Keech, D. Loguinov, "Vortex", ASPLOS 2020, section 5;
// src/sorting/sort/README.md tells how and why this sort differs.

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "penstock/base.h"

namespace penstock {

struct SortOptions {
  unsigned threads = 1;     // used if there is enough work for them
  bool descending = false;  // stable sorts keep the order of equal keys in this direction, too
  // Keeps the order of items with equal keys. Costs one more copy if items have values; for
  // KeyValue32 twice the memory of the items.
  bool stable = false;
};

template <class T>
concept Sortable =
    std::same_as<T, uint8_t> || std::same_as<T, int8_t> || std::same_as<T, uint16_t> ||
    std::same_as<T, int16_t> || std::same_as<T, uint32_t> || std::same_as<T, int32_t> ||
    std::same_as<T, uint64_t> || std::same_as<T, int64_t> || std::same_as<T, float> ||
    std::same_as<T, double> || std::same_as<T, KeyValue32> || std::same_as<T, KeyValue64> ||
    std::same_as<T, Key128>;

namespace sort_internal {
// The Sortable type with the values of T, or T itself.
template <class T>
consteval auto sortable_of() {
  if constexpr (std::is_enum_v<T>) {
    return sortable_of<std::underlying_type_t<T>>();
  } else if constexpr (!std::integral<T> || std::same_as<T, bool> || sizeof(T) > 8) {
    return std::type_identity<T>();
  } else {
    using Words =
        std::conditional_t<std::is_signed_v<T>, std::tuple<int8_t, int16_t, int32_t, int64_t>,
                           std::tuple<uint8_t, uint16_t, uint32_t, uint64_t>>;
    return std::type_identity<std::tuple_element_t<std::bit_width(sizeof(T)) - 1, Words>>();
  }
}
template <class T>
using SortableOf = typename decltype(sortable_of<std::remove_cv_t<T>>())::type;
// Returns a range's items as the type that the library sorts.
template <class Range>
auto* items_of(Range&& range) {
  using T = std::remove_pointer_t<decltype(std::ranges::data(range))>;
  using Item = std::conditional_t<std::is_const_v<T>, const SortableOf<T>, SortableOf<T>>;
  return reinterpret_cast<Item*>(std::ranges::data(range));
}
template <Sortable T>
Status sort(T* items, size_t count, const SortOptions& options);
template <Sortable T>
Status sort_to(const T* in, size_t count, T* out, const SortOptions& options);
template <Sortable T>
Status sort_first(T* items, size_t count, size_t first, const SortOptions& options);
template <Sortable T>
Status argsort(const T* keys, size_t count, uint64_t* order, const SortOptions& options);
}  // namespace sort_internal

// An array that sort() takes: of a Sortable type, or of a type with the values of one.
template <class Range>
concept SortableRange = std::ranges::contiguous_range<Range> &&
                        Sortable<sort_internal::SortableOf<std::ranges::range_value_t<Range>>>;

// Sorts in place.
template <SortableRange Items>
Status sort(Items&& items, const SortOptions& options = {}) {
  return sort_internal::sort(sort_internal::items_of(items), std::ranges::size(items), options);
}
// Rejects any other array with a compiler message that tells how to sort it.
template <std::ranges::contiguous_range Items>
  requires(!SortableRange<Items> && !std::convertible_to<Items, std::span<std::string_view>>)
Status sort(Items&&, const SortOptions& = {}) {
  static_assert(
      std::is_void_v<Items>,
      "penstock::sort() takes numbers, KeyValue32, KeyValue64 (a key with a value), Key128 "
      "and std::string_view; for any other struct use penstock::sort_records() with the "
      "bytes of its key, or argsort() of its keys");
  return {};
}

// Sorts out of place. REQUIRES: no overlap. Errors: invalid_argument if `out` is shorter.
template <SortableRange In, SortableRange Out>
  requires std::same_as<std::ranges::range_value_t<In>, std::ranges::range_value_t<Out>>
Status sort(const In& in, Out&& out, const SortOptions& options = {}) {
  if (std::ranges::size(out) < std::ranges::size(in))
    return failure(ErrorCode::invalid_argument, "sort", "the output", "as many items as there are");
  return sort_internal::sort_to(sort_internal::items_of(in), std::ranges::size(in),
                                sort_internal::items_of(out), options);
}
template <Sortable T>
Status sort(std::span<const T> in, std::span<T> out, const SortOptions& options = {}) {
  if (out.size() < in.size())
    return failure(ErrorCode::invalid_argument, "sort", "the output", "as many items as there are");
  return sort_internal::sort_to(in.data(), in.size(), out.data(), options);
}

// Moves the least `first` items (with `descending`, the greatest) to the front, in order; the
// others follow in no order. Sorts all items if there are not more.
template <SortableRange Items>
Status partial_sort(Items&& items, size_t first, const SortOptions& options = {}) {
  return sort_internal::sort_first(sort_internal::items_of(items), std::ranges::size(items), first,
                                   options);
}

// Copies the least (with `descending`, the greatest) out.size() items of `in`, in order. Takes
// memory for twice the items of `out`. Errors: invalid_argument if `out` is longer.
template <Sortable T>
Status top_k(std::span<const T> in, std::span<T> out, const SortOptions& options = {});
template <SortableRange In, SortableRange Out>
  requires std::same_as<std::ranges::range_value_t<In>, std::ranges::range_value_t<Out>>
Status top_k(const In& in, Out&& out, const SortOptions& options = {}) {
  return top_k(std::span(sort_internal::items_of(in), std::ranges::size(in)),
               std::span(sort_internal::items_of(out), std::ranges::size(out)), options);
}

// Computes the places of the keys in order: keys[order[0]] is the least. Stable. Takes 16 bytes an
// item, and the memory for sorting them. Errors: invalid_argument if `order` is shorter.
template <Sortable T>
Status argsort(std::span<const T> keys, std::span<uint64_t> order,
               const SortOptions& options = {}) {
  if (order.size() < keys.size())
    return failure(ErrorCode::invalid_argument, "argsort", "the order", "as many places as keys");
  return sort_internal::argsort(keys.data(), keys.size(), order.data(), options);
}
template <SortableRange In, class Order>
  requires std::convertible_to<Order&, std::span<uint64_t>>
Status argsort(const In& keys, Order&& order, const SortOptions& options = {}) {
  return argsort(std::span(sort_internal::items_of(keys), std::ranges::size(keys)),
                 std::span<uint64_t>(order), options);
}

// Sorts views of strings by their bytes as unsigned numbers; a prefix comes before longer strings.
// The strings themselves stay in place. Takes 16 bytes a string, and the memory for sorting them.
Status sort(std::span<std::string_view> strings, const SortOptions& options = {});
// Computes the places of strings in order, as above.
Status argsort(std::span<const std::string_view> strings, std::span<uint64_t> order,
               const SortOptions& options = {});

// The layout of records that are ordered by their bytes [key_offset, key_offset + key_bytes),
// compared as unsigned bytes (memcmp). Size and address need no alignment.
struct RecordLayout {
  size_t record_bytes = 0;  // at most record_bytes_max
  size_t key_offset = 0;
  size_t key_bytes = 0;
};
inline constexpr size_t record_bytes_max = size_t{64} << 10;

// Sorts `count` adjacent records in place. Memory besides them as above, with 8 MiB instead of the
// 3 MiB; 16 bytes a record more for those that share such long prefixes of their keys that two more
// distributions do not separate them, and for records from 2 KiB up if one thread sorts. Errors:
// invalid_argument (a size of 0, a key outside of the record, records too large); out_of_memory,
// with all records there, though possibly in another order.
Status sort_records(void* records, size_t count, const RecordLayout& layout,
                    const SortOptions& options = {});

}  // namespace penstock
