#pragma once

// How a sort of numbers divides its memory. All figures in bytes unless the name says otherwise.

#include <cstdint>

#include "external/external_sort.h"
#include "external/memory_plan.h"

namespace penstock::external {

struct NumberPlan : BucketPlan {
  uint64_t bucket_bytes_max = 0;  // that is sorted as it is
};

// `input_bytes`: expected; `known`: for certain. `ordered`: the output takes items in order only,
// through a stream of its own.
NumberPlan plan_numbers(const SortOptions& options, uint64_t memory_bytes, uint64_t input_bytes,
                        bool known, bool ordered);

// A bucket takes this much of the arena while it is sorted: its items, and what aligns it to its
// place in the output.
uint64_t number_region_bytes(uint64_t bucket_bytes);

// Blocks of the stream that an ordered output is written through.
inline constexpr uint32_t ordered_blocks = 8;

}  // namespace penstock::external
