#pragma once

// How a sort divides its work: buckets of the first level, and their memory.

#include <cstddef>
#include <cstdint>

#include "penstock/base.h"

namespace penstock::sorting {

// Items of at most this size are sorted without a first level.
inline constexpr size_t cache_bytes_max = MiB;

// The plan of a sort of items or of records.
struct ChunkPlan {
  size_t item_bytes = 0;
  unsigned threads = 1;
  bool in_order = false;        // input is read from front to back
  uint32_t buckets = 0;         // buckets of the first level; 0: sorts all at once
  uint32_t nested_buckets = 0;  // buckets of a bucket that is divided again
  size_t chunk_items = 0;
  uint32_t spare_chunks = 0;
  uint32_t shift_chunks = 0;    // shift of the regions towards the end
  size_t bucket_items_max = 0;  // larger buckets are divided again
  uint32_t sample_items = 0;

  size_t chunk_bytes() const { return chunk_items * item_bytes; }
};

ChunkPlan plan_in_place(uint64_t items, size_t item_bytes, unsigned threads, bool in_order);

// The memory beside `bytes` of items that sort.h promises, at most.
uint64_t extra_bytes_promised(uint64_t bytes, unsigned threads);

}  // namespace penstock::sorting
