#pragma once

// The memory that a budget leaves for blocks and buffers, and the sizes of blocks. All figures are
// in bytes unless the name says otherwise. A sort divides its memory in bucket_plan.h.

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/run_scope.h"
#include "files/run/options.h"
#include "penstock/base.h"

namespace penstock::files {

// Makes the accounts of a run (base/run_scope.h): of its traffic, and of its memory if the budget
// is the call's. A run within another run shares that one's.
RunState run_state(const penstock::FilesOptions& options);

// The memory that a budget leaves for blocks and buffers, 0 if none. If the budget is the call's,
// it is the part that the account has not charged, its reserve included. If it is the process's, it
// is the budget without the program, its libraries, its stacks and a margin for page tables and the
// allocator.
uint64_t usable_memory(uint64_t budget_bytes);
// The budget that leaves `usable_bytes` now.
uint64_t budget_for(uint64_t usable_bytes);
// The error of a run that lacks `missing_bytes` of its budget. `attempted`: "merge within 40 MiB". Its
// hint is a budget that is enough, although decoders and filters take up to a quarter of what a larger
// one adds.
std::unexpected<Error> too_small_budget(std::string attempted, uint64_t budget_bytes,
                                        uint64_t missing_bytes);
// Returns a budget for messages: "64 MiB", cut off to whole MiB, or "100 KiB".
std::string budget_text(uint64_t budget_bytes);
// The memory in use now, without the reserve or the margin.
uint64_t taken_memory();

// The scope of the budget, and the peak of its memory so far.
MemoryScope memory_scope();
uint64_t peak_memory();

// Sizes of the blocks in which files are read and written; powers of two.
inline constexpr size_t block_bytes_min = 64 * KiB;
inline constexpr size_t block_bytes_max = 2 * MiB;
// The largest block size up to `bytes`, or the least.
size_t block_within(uint64_t bytes);

// The least budget.
inline constexpr uint64_t files_memory_bytes_min = 32 * MiB;
// The least usable memory: with less a run would read the data many times.
inline constexpr uint64_t usable_bytes_min = 12 * MiB;
// The part of it that must be left when a run makes its plan: other threads of the program may have
// taken memory meanwhile.
inline constexpr uint64_t planned_bytes_min = 8 * MiB;
// The part of it that decoders and filters of inputs leave.
inline constexpr uint64_t bytes_beside_decoders_min = 4 * MiB;

}  // namespace penstock::files
