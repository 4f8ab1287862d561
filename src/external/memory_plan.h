#pragma once

// What all sorts have in common when they divide their budget: number_plan.h and string_plan.h go
// on from here. All figures in bytes unless the name says otherwise.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "penstock/units.h"

namespace penstock::external {

// What a budget leaves for blocks and buffers: the program, its libraries, its stacks and a margin
// for page tables and the allocator are taken off. 0 when nothing is left.
uint64_t usable_memory(uint64_t budget_bytes);
// The budget that leaves so much now.
uint64_t budget_for(uint64_t usable_bytes);

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

// ---- where items are distributed to buckets, which are then sorted

// What plans of numbers and of strings have in common.
struct BucketPlan {
  bool fits = false;     // expected: nothing goes to temporaries
  uint32_t buckets = 0;  // to cut for
  uint64_t arena_bytes = 0;
  size_t block_bytes = 0;       // in which buckets grow, and are written to temporaries
  uint32_t write_blocks = 0;    // free or being written, at least, while something is spilled
  size_t read_block_bytes = 0;  // of the input
  uint32_t read_blocks = 8;
  // The second phase: sorts side by side, each by so many threads.
  unsigned sorters = 1;
  unsigned sorter_threads = 1;
  // What it expects to stay in memory between the phases.
  uint64_t kept_bytes = 0;
};

// What there is to divide.
struct BucketNeeds {
  uint64_t memory_bytes = 0;
  uint64_t input_bytes = 0;
  uint64_t sorted_bytes = 0;  // of the arena, for all of the input while it is sorted
  unsigned threads = 1;
  uint32_t buckets_max = 1;
  uint64_t bucket_bytes_min = 1;  // of the input
  // What the second phase takes beside the arena, with buckets that take so much of it.
  std::function<uint64_t(const BucketPlan&, uint64_t bucket_bytes)> sorters_bytes;
};

// Plans for all of it to stay in memory, if it can, and returns how much is left over.
// REQUIRES, of both: `read_block_bytes` is planned.
std::optional<uint64_t> plan_to_keep(BucketPlan& plan, const BucketNeeds& needs);
// Plans for temporaries, and returns how much of the arena a bucket may take to be sorted.
uint64_t plan_to_spill(BucketPlan& plan, const BucketNeeds& needs);

// Calls plan(bytes) with what the lists of blocks in temporaries leave of the memory (`list_bytes`
// of a block, in lists that double as they grow), until that is enough for them. Less memory makes
// smaller blocks, and more of them to know of; below the smallest nothing changes any more. Lists
// of `lists_free_bytes` are planned for in any case.
inline constexpr uint64_t lists_free_bytes = 64 * KiB;
template <class Plan>
auto plan_beside_lists(uint64_t memory_bytes, uint64_t input_bytes, uint64_t list_bytes,
                       Plan plan) {
  for (uint64_t lists_bytes = 0;;) {
    auto planned = plan(memory_bytes - lists_bytes);
    const uint64_t needed =
        planned.fits
            ? 0
            : std::min(input_bytes / planned.block_bytes * 2 * list_bytes, memory_bytes / 2);
    if (needed <= std::max(lists_bytes, lists_free_bytes)) return planned;
    lists_bytes = needed;
  }
}

}  // namespace penstock::external
