#pragma once

// How records are divided: buckets, chunks, and what may be unfilled. All tunables of it stand in
// record_plan.cc, but for those that the sort itself needs.

#include <cstddef>
#include <cstdint>

#include "penstock/base.h"

namespace penstock::sorting {

inline constexpr unsigned record_depth_max = 2;  // of distributions behind the first one
inline constexpr size_t record_chunk_bytes_max = 16 * KiB;

struct RecordPlan {
  uint32_t buckets = 0;  // 0: everything at once
  size_t chunk_records = 0;
  uint32_t spare_chunks = 0;
  uint32_t shift_chunks = 0;
  size_t bucket_records_max = 0;  // larger buckets are divided again
  uint32_t nested_buckets = 0;
  uint32_t sample_records = 0;
};

RecordPlan plan_records(uint64_t count, size_t record_bytes, unsigned threads, bool in_order);
// Of so many that may work, those that have enough to do.
unsigned record_threads(size_t count, size_t record_bytes, unsigned threads);

}  // namespace penstock::sorting
