#pragma once

// How the budget is divided, for records and lines; numbers have number_plan.h. All figures in
// bytes unless the name says otherwise.

#include <cstddef>
#include <cstdint>

#include "external/external_sort.h"

namespace penstock::external {

// What a budget leaves for blocks and buffers: the program, its libraries, its stacks and a margin
// for page tables and the allocator are taken off. 0 when nothing is left.
uint64_t usable_memory(uint64_t budget_bytes);

// The blocks in which files are read and written: 64 KiB to 2 MiB, a power of two.
inline constexpr size_t block_bytes_min = 64 * KiB;
inline constexpr size_t block_bytes_max = 2 * MiB;
// The largest such block of at most `bytes`, or the least.
size_t block_within(uint64_t bytes);

// A sorter of one bucket at a time: files are read and written in blocks of one size, the sort
// moves blocks of another.
struct SorterPlan {
  uint64_t memory_bytes = 0;
  size_t file_block_bytes = 0;
  uint32_t read_ahead_blocks = 0;
  uint32_t file_blocks = 0;  // of the pool that reader and writer share
  size_t sort_block_bytes = 0;
  uint64_t address_bytes_max = 0;  // of the sort\'s streams
  uint64_t bytes_max = 0;          // of a bucket whose items have the size that was planned for
};
// `item_bytes`: on average. `file_block_bytes`: 0: choose.
SorterPlan plan_sorter(const SortOptions& options, uint64_t memory_bytes, double item_bytes,
                       size_t file_block_bytes = 0);
// Whether a bucket fits a sorter.
bool fits(const SorterPlan& plan, uint64_t bytes, uint64_t items);
// The blocks that the sort of so many items needs.
uint32_t sort_blocks(const SorterPlan& plan, uint64_t items);

// The first phase: a reader, and a writer for each bucket.
struct DistributionPlan {
  uint32_t buckets = 0;  // to cut for
  size_t read_block_bytes = 0;
  uint32_t read_blocks = 0;
  size_t write_block_bytes = 0;
  uint32_t write_blocks = 0;  // one for each bucket and what is in flight
};
// `sorter` is what a sorter of the second phase has; it reads with the block size that this phase
// writes with.
DistributionPlan plan_distribution(uint64_t memory_bytes, uint64_t input_bytes,
                                   const SorterPlan& sorter);

// The second phase: sorters side by side, one more than threads that compute: while those do, it
// reads or writes. With little memory fewer, because each needs some before it holds a single item.
unsigned sorters_for(unsigned threads, uint64_t memory_bytes);

// Less than this, and a run would go over the data many times.
inline constexpr uint64_t usable_bytes_min = 12 * MiB;

}  // namespace penstock::external
