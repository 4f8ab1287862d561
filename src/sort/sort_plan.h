#pragma once

// How a sort divides its work: buckets of the first level, and what memory that takes.

#include <cstddef>
#include <cstdint>

namespace penstock::sorting {

struct SortPlan {
  uint32_t buckets = 0;  // of the first level; 0: everything at once in the cache
  size_t chunk_bytes = 0;
  uint32_t spare_chunks = 0;
  uint32_t shift_chunks = 0;   // of the regions towards the end
  size_t cache_items_max = 0;  // larger buckets are divided again
  uint32_t sample_items = 0;
};

SortPlan plan_sort(uint64_t items, size_t item_bytes, unsigned threads, bool in_order);

}  // namespace penstock::sorting
