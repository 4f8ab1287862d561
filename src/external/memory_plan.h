#pragma once

// What all sorts have in common when they divide their budget: number_plan.h and string_plan.h go
// on from here. All figures in bytes unless the name says otherwise.

#include <cstddef>
#include <cstdint>

#include "penstock/units.h"

namespace penstock::external {

// What a budget leaves for blocks and buffers: the program, its libraries, its stacks and a margin
// for page tables and the allocator are taken off. 0 when nothing is left.
uint64_t usable_memory(uint64_t budget_bytes);

// The blocks in which files are read and written: 64 KiB to 2 MiB, a power of two.
inline constexpr size_t block_bytes_min = 64 * KiB;
inline constexpr size_t block_bytes_max = 2 * MiB;
// The largest such block of at most `bytes`, or the least.
size_t block_within(uint64_t bytes);

// Less than this, and a run would go over the data many times.
inline constexpr uint64_t usable_bytes_min = 12 * MiB;

}  // namespace penstock::external
