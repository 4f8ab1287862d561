#pragma once

// Records and lines in memory, sorted where they lie: by pairs of eight bytes of the key, and the
// item's place.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "external/external_sort.h"
#include "sort/item.h"

namespace penstock::external {

// Whole items, one behind the other.
struct ItemsInMemory {
  const std::byte* data = nullptr;
  uint64_t bytes = 0;
  uint64_t items = 0;

  const std::byte* end() const { return data + bytes; }
};

// Puts the items' pairs in order at `pairs`: items of equal keys in the order in which they lie.
// A pair's value is then the item's place in the data, and its key says nothing any more.
// Errors: corrupt: these are not so many whole items; out_of_memory.
Status sort_pairs(const SortOptions& options, const ItemsInMemory& items, sorting::KeyValue* pairs,
                  unsigned threads);

// Memory that sort_pairs() takes beside the pairs, at most.
uint64_t sort_pairs_extra_bytes(const record::Format& format, uint64_t items, unsigned threads);

}  // namespace penstock::external
