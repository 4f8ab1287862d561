#pragma once

// How records are divided: buckets, chunks, and how much may be unfilled. record_plan.cc has all
// tunables of it, except for those that the sort itself needs.

#include <cstddef>
#include <cstdint>

#include "penstock/base.h"
#include "sorting/sort/in_place/in_place_plan.h"

namespace penstock::sorting {

inline constexpr unsigned record_depth_max = 2;  // distributions behind the first one
inline constexpr size_t record_chunk_bytes_max = 16 * KiB;

ChunkPlan plan_records(uint64_t count, size_t record_bytes, unsigned threads, bool in_order);
// Returns how many of `threads` have enough to do.
unsigned record_threads(size_t count, size_t record_bytes, unsigned threads);

}  // namespace penstock::sorting
