#pragma once

// What a budget leaves, and the blocks for it. All figures in bytes unless the name says otherwise.
// How a sort divides it: bucket_plan.h.

#include <cstddef>
#include <cstdint>

#include "base/run_scope.h"
#include "files/run/options.h"
#include "penstock/base.h"

namespace penstock::files {

// Accounts for a run with such options (base/run_scope.h): of its traffic, and of its memory if its budget
// is the call's. A run within another one has that one's.
RunState run_state(const penstock::FilesOptions& options);

// What a budget leaves for blocks and buffers. 0 when nothing is left. Of the call's: what the
// account has not yet, its reserve included. Of the process's: the program, its libraries, its stacks and
// a margin for page tables and the allocator are taken off.
uint64_t usable_memory(uint64_t budget_bytes);
// The budget that leaves so much now.
uint64_t budget_for(uint64_t usable_bytes);
// What is taken now, without the reserve or the margin.
uint64_t taken_memory();

// What the budget is held against, and the most of it so far.
MemoryScope memory_scope();
uint64_t peak_memory();

// The blocks in which files are read and written: 64 KiB to 2 MiB, a power of two.
inline constexpr size_t block_bytes_min = 64 * KiB;
inline constexpr size_t block_bytes_max = 2 * MiB;
// The largest such block of at most `bytes`, or the least.
size_t block_within(uint64_t bytes);

// Less than this, and a run would go over the data many times.
inline constexpr uint64_t usable_bytes_min = 12 * MiB;
// What of that has to be left when plans are made, of any input: other threads of the program may
// have taken memory meanwhile.
inline constexpr uint64_t planned_bytes_min = 8 * MiB;

}  // namespace penstock::files
