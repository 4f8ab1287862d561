#pragma once

// How a sort of records or lines divides its memory. All figures in bytes unless the name says
// otherwise.

#include <cstddef>
#include <cstdint>

#include "external/external_sort.h"
#include "external/memory_plan.h"

namespace penstock::external {

struct StringPlan : BucketPlan {
  uint64_t item_bytes_max = 0;    // which the reader can come back to
  uint64_t region_bytes_max = 0;  // of the arena, for a bucket that is sorted as it is
  size_t output_block_bytes = 0;  // in which each sorter writes
};

// `input_bytes`, `item_bytes` (on average): expected; `known`: the former for certain.
StringPlan plan_strings(const SortOptions& options, uint64_t memory_bytes, uint64_t input_bytes,
                        double item_bytes, bool known);

// What a bucket takes of the arena while it is sorted: its items, and behind them their pairs.
uint64_t string_region_bytes(uint64_t bytes, uint64_t items);
// Where the pairs begin.
uint64_t pairs_offset(uint64_t bytes);

// Of each sorter's output: one is filled while the others are written.
inline constexpr uint32_t output_blocks = 4;

}  // namespace penstock::external
