#pragma once

// How a sort of numbers divides its memory. All figures in bytes unless the name says otherwise.

#include <cstddef>
#include <cstdint>

#include "external/external_sort.h"

namespace penstock::external {

struct NumberPlan {
  bool fits = false;     // nothing goes to temporaries
  uint32_t buckets = 0;  // to cut for
  uint64_t arena_bytes = 0;
  size_t block_bytes = 0;       // in which buckets grow, and are written to temporaries
  uint32_t write_blocks = 0;    // free or being written, at least, while something is spilled
  size_t read_block_bytes = 0;  // of the input
  uint32_t read_blocks = 0;
  // The second phase: sorts side by side, each by so many threads, of buckets of at most so many
  // bytes.
  unsigned sorters = 1;
  unsigned sorter_threads = 1;
  uint64_t bucket_bytes_max = 0;
  // What it expects to stay in memory between the phases.
  uint64_t kept_bytes = 0;
};

// `input_bytes`: expected; `known`: for certain. `ordered`: the output takes items in order only,
// through a stream of its own.
NumberPlan plan_numbers(const SortOptions& options, uint64_t memory_bytes, uint64_t input_bytes,
                        bool known, bool ordered);

// A bucket takes this much of the arena while it is sorted: its items, and what aligns it to its
// place in the output.
uint64_t region_bytes(uint64_t bucket_bytes);

// Blocks of the stream that an ordered output is written through.
inline constexpr uint32_t ordered_blocks = 8;

}  // namespace penstock::external
