#pragma once

// Sort of records and lines that stay in place: pairs of eight bytes of the key and the item's
// place are sorted instead.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "files/sort/external_sort.h"
#include "items/items.h"
#include "sorting/sort/item.h"

namespace penstock::external {

// Whole items, one behind the other.
struct ItemsInMemory {
  const std::byte* data = nullptr;
  uint64_t bytes = 0;
  uint64_t items = 0;

  const std::byte* end() const { return data + bytes; }
};

// The value of a pair: offset and length of its item, so that no end is searched for in an item
// that is not in the cache. Values are ordered like offsets.
//
// Invariant: an offset fits into 40 bits. A long item's length is not stored, but searched for.
class ItemPlace {
 public:
  ItemPlace(uint64_t offset, size_t bytes)
      : value_(offset << bits | (bytes < unknown ? bytes : unknown)) {}
  explicit ItemPlace(uint64_t value) : value_(value) {}

  uint64_t value() const { return value_; }
  // Prefetches the item's first cache lines: an item of 100 bytes lies in two of them, or in three.
  void prefetch(const std::byte* data) const {
    constexpr uintptr_t line_bytes = 64;
    constexpr uintptr_t prefetched_bytes_max = 4 * line_bytes;
    const auto begin = reinterpret_cast<uintptr_t>(data + offset());
    const uintptr_t end = begin + std::min<uint64_t>(value_ & unknown, prefetched_bytes_max);
    for (uintptr_t line = begin / line_bytes * line_bytes; line < end; line += line_bytes)
      __builtin_prefetch(reinterpret_cast<const void*>(line));
  }
  uint64_t offset() const { return value_ >> bits; }
  std::string_view item(const items::Format& format, const ItemsInMemory& items) const {
    const std::byte* at = items.data + offset();
    const uint64_t bytes = value_ & unknown;
    return bytes != unknown ? items::text_at(at, bytes) : items::item_at(format, at, items.end());
  }

 private:
  static constexpr unsigned bits = 24;
  static constexpr uint64_t unknown = (uint64_t{1} << bits) - 1;
  uint64_t value_;
};

// Writes the items' pairs to `pairs` in order; items of equal keys stay in the order in which they
// lie, unless Format::equal_keys_are_equal(). The value of a sorted pair is its ItemPlace, and its
// key is 1 if the item's key equals the one before, else 0. Errors: corrupt if `items` does not
// consist of that many whole items; out_of_memory.
Status sort_pairs(const SortOptions& options, const ItemsInMemory& items, sorting::KeyValue* pairs,
                  unsigned threads);

// Most memory that sort_pairs() takes beside the pairs.
uint64_t sort_pairs_extra_bytes(const items::Format& format, uint64_t items, unsigned threads);

}  // namespace penstock::external
