#pragma once

// What all sorts have in common when they divide their budget: number_plan.h and string_plan.h go
// on from here. All figures in bytes unless the name says otherwise.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "penstock/error.h"
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

// What is known of each block in a temporary, as long as its bucket waits: its number, 4 bytes
// (split.h), and its check, 8 (file/block_checks.h); where it may be compressed, how long it is, 4
// more. What lists have in reserve while they grow is a quarter of that (append_to_list()).
inline constexpr uint64_t list_bytes_per_block = (4 + 8) * 5 / 4;
inline constexpr uint64_t list_bytes_per_compressed_block = (4 + 8 + 4) * 5 / 4;

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
  uint64_t sorters_bytes = 0;  // what these take beside the arena, for the largest bucket planned
  uint32_t splits = 0;         // how often an item is distributed; 0: all of it stays in memory
  // For the lists of what lies in temporaries, beside all of the above: so much for each block.
  // Where the memory does not suffice for them, nothing may begin.
  uint64_t lists_bytes = 0;
  uint64_t block_list_bytes = list_bytes_per_compressed_block;
  bool holds = true;
  // What it expects to stay in memory between the phases.
  uint64_t kept_bytes = 0;
};

// What there is to divide.
struct BucketNeeds {
  uint64_t memory_bytes = 0;
  uint64_t input_bytes = 0;
  uint64_t sorted_bytes = 0;  // of the arena, for all of the input while it is sorted
  unsigned threads = 1;
  size_t block_bytes_least = block_bytes_min;
  uint64_t block_list_bytes = list_bytes_per_compressed_block;  // as in BucketPlan
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

// ---- lists of what is known of each block in a temporary

// Where a bucket is distributed again, also where each piece of it lies; a reader has a copy.
inline constexpr uint64_t extent_list_bytes = 2 * 24;
// What lists leave at least of any memory.
inline constexpr uint64_t beside_lists_bytes_min = planned_bytes_min / 2;
// Lists of so much are planned for in any case.
inline constexpr uint64_t lists_free_bytes = 64 * KiB;
// A pipe whose length nobody knows may hold so many times the memory, or as much as has lists in an
// eighth of it; then they are longer than planned, and the sort ends.
inline constexpr uint64_t pipe_listed_multiple = 2048;
inline constexpr uint64_t lists_divisor = 8;
// What the lists of so much input may take.
uint64_t lists_bytes_of(const BucketPlan& plan, uint64_t input_bytes);
// The pieces in which a bucket is read that is distributed again, with so much memory.
size_t extent_bytes_for(uint64_t memory_bytes, size_t block_bytes);
// What stays for its distribution.
uint64_t memory_beside_extents(uint64_t memory_bytes, uint64_t bucket_bytes, size_t block_bytes);
// Fails where the plan does not hold.
Status check_lists(const BucketPlan& plan, uint64_t input_bytes);
// How many blocks a distribution may write before it has more lists than planned for.
uint64_t listed_blocks_max(const BucketPlan& plan);
// Of some plans for the same, each with other blocks, the better one.
bool is_better(const BucketPlan& plan, const BucketPlan& than, uint64_t memory_bytes);

// As push_back(), but at most a quarter is in reserve.
template <class T>
void append_to_list(std::vector<T>& list, T value) {
  if (list.size() == list.capacity()) list.reserve(list.size() + list.size() / 4 + 4);
  list.push_back(value);
}

// The best of what plan(bytes, block_bytes_least) makes of what the lists leave of the memory. Less
// memory makes smaller blocks, and more of them to know of, so that it is asked until both agree.
// `listed_bytes`: of the input.
template <class Plan>
auto plan_beside_lists_of(uint64_t memory_bytes, uint64_t listed_bytes, Plan plan) {
  auto best = plan(memory_bytes, block_bytes_min);
  if (best.fits) return best;
  best.holds = false;
  for (size_t least = block_bytes_min; least <= block_bytes_max; least *= 2) {
    for (uint64_t lists_bytes = 0; lists_bytes + beside_lists_bytes_min <= memory_bytes;) {
      auto planned = plan(memory_bytes - lists_bytes, least);
      const uint64_t needed_bytes = lists_bytes_of(planned, listed_bytes);
      // (A little is part of every plan.)
      planned.lists_bytes = std::max(lists_bytes, lists_free_bytes);
      if (needed_bytes <= planned.lists_bytes) {
        if (is_better(planned, best, memory_bytes)) best = planned;
        break;
      }
      lists_bytes = needed_bytes;
    }
  }
  return best;
}

// The same, of an input that may be longer where its length is not known.
template <class Plan>
auto plan_beside_lists(uint64_t memory_bytes, uint64_t input_bytes, bool known, Plan plan) {
  uint64_t listed_bytes =
      known ? input_bytes : std::max(input_bytes, pipe_listed_multiple * memory_bytes);
  for (;;) {
    auto best = plan_beside_lists_of(memory_bytes, listed_bytes, plan);
    if (listed_bytes == input_bytes || best.fits) return best;
    if (best.holds && best.lists_bytes <= memory_bytes / lists_divisor) return best;
    listed_bytes = std::max(input_bytes, listed_bytes / 2);
  }
}

// The largest bucket, as the sample says, and with its error.
uint64_t largest_bucket_bytes(const BucketPlan& plan, uint64_t input_bytes);

// Whether the memory suffices for every level: what is distributed again has what the lists of the
// levels above it leave. plan(memory_bytes, input_bytes) as a level is planned.
template <class Plan>
bool all_levels_hold(uint64_t memory_bytes, uint64_t input_bytes, Plan plan) {
  for (uint32_t depth = 0;; ++depth) {
    const BucketPlan level = plan(memory_bytes, input_bytes, depth);
    if (!level.holds) return false;
    if (level.splits <= 1) return true;
    memory_bytes -= std::min(memory_bytes, level.lists_bytes);
    input_bytes = largest_bucket_bytes(level, input_bytes);
  }
}

}  // namespace penstock::external
