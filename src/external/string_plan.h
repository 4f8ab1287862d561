#pragma once

// How a sort of records or lines divides its memory. All figures in bytes unless the name says
// otherwise.

#include <cstddef>
#include <cstdint>

#include "external/external_sort.h"

namespace penstock::external {

struct StringPlan {
  bool fits = false;     // expected: nothing goes to temporaries
  uint32_t buckets = 0;  // to cut for
  uint64_t arena_bytes = 0;
  size_t block_bytes = 0;       // in which buckets grow, and are written to temporaries
  uint32_t write_blocks = 0;    // free or being written, at least, while something is spilled
  size_t read_block_bytes = 0;  // of the input
  uint32_t read_blocks = 0;
  uint64_t item_bytes_max = 0;  // which the reader can come back to
  // The second phase: sorts side by side, each by so many threads, of buckets that take at most so
  // much of the arena; and the blocks in which each writes.
  unsigned sorters = 1;
  unsigned sorter_threads = 1;
  uint64_t region_bytes_max = 0;
  size_t output_block_bytes = 0;
  // What it expects to stay in memory between the phases.
  uint64_t kept_bytes = 0;
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
