#pragma once

// Division of a sort's memory among buckets, their blocks, and the sorters. All figures are in
// bytes unless the name says otherwise.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "files/run/memory_plan.h"
#include "files/sort/external_sort.h"

namespace penstock::external {

// Memory for each block in a temporary, as long as its bucket waits: its number, 4 bytes (split.h),
// its check and its length, 8 (StoredBlock, or io/block_checks.h), and a quarter of that in
// reserve while lists grow (append_to_list()).
inline constexpr uint64_t list_bytes_per_block = (4 + 8) * 5 / 4;
// Most input bytes that one of several distributing threads takes at a time.
inline constexpr size_t split_window_bytes_max = 512 * KiB;
// Memory for lists that every plan includes.
inline constexpr uint64_t lists_free_bytes = 64 * KiB;

struct BucketPlan {
  bool fits = false;     // all of the input is expected to stay in memory
  uint32_t buckets = 0;  // number of buckets to cut the input into
  uint64_t arena_bytes = 0;
  size_t block_bytes = 0;       // unit in which buckets grow and are written to temporaries
  uint32_t write_blocks = 0;    // least number of free or written blocks during a spill
  size_t read_block_bytes = 0;  // block of the input's reader
  uint32_t read_blocks = 8;
  uint64_t item_bytes_max = 0;  // longest item: how far the reader can seek back
  unsigned split_threads = 1;   // threads that distribute side by side
  uint64_t split_bytes = 0;     // memory of the distributing threads' lines and tables
  // The second phase runs `sorters` sorts side by side, each with `sorter_threads` threads.
  unsigned sorters = 1;
  unsigned sorter_threads = 1;
  uint64_t sorters_bytes = 0;     // memory beside the arena, for the largest planned bucket
  uint64_t region_bytes_max = 0;  // most arena bytes of a bucket that is not split again
  // Output blocks that sorters fill: one is filled while the others are written. For an output that
  // is written from the arena: the size of its requests.
  size_t output_block_bytes = 0;
  uint32_t output_blocks = 0;
  uint32_t splits = 0;  // distributions of each item; 0: all of the input stays in memory
  // Memory for the lists of the blocks in temporaries, beside all of the above. If `holds` is false
  // the memory does not suffice for them, and the sort must not begin.
  uint64_t lists_bytes = 0;
  bool holds = true;
  // Input bytes that memory holds while they are distributed, and that are expected to stay there
  // between the phases. The latter are fewer: a sorted item takes `region_share` times its bytes.
  uint64_t held_bytes = 0;
  uint64_t kept_bytes = 0;
  double region_share = 1;
  // Input bytes that the arena holds while they are sorted.
  uint64_t bytes_in_arena() const {
    return static_cast<uint64_t>(static_cast<double>(arena_bytes) / region_share);
  }
};

// Input of a distribution.
struct BucketInput {
  uint64_t bytes = 0;     // expected
  bool known = true;      // whether `bytes` is certain
  double item_bytes = 0;  // expected average
  bool in_order = false;  // whether the output takes items only in order
};

BucketPlan plan_buckets(const SortOptions& options, uint64_t memory_bytes,
                        const BucketInput& input);
// Plans of all levels of distribution: of the input at the first level, then of the largest bucket
// of the level before, with the memory that the lists of the levels above leave. The last plan's
// `holds` says whether all plans hold.
std::vector<BucketPlan> plan_levels(const SortOptions& options, uint64_t memory_bytes,
                                    BucketInput input);
// Number of distributions that an item goes through before its bucket can be sorted.
uint32_t splits_of(const SortOptions& options, const BucketPlan& plan, const BucketInput& input);

// Arena memory that a bucket takes while it is sorted: for numbers, its items and padding that
// aligns it to its place in the output; for texts, its items and their pairs.
uint64_t region_bytes_of(const items::Format& format, uint64_t bytes, uint64_t items);
uint64_t pairs_offset(uint64_t bytes);

// ---- lists with an entry for each block in a temporary

// Size of the pieces in which a bucket that is distributed again is read.
size_t extent_bytes_for(uint64_t memory_bytes, size_t block_bytes);
// Memory that the list of these pieces leaves for the bucket's distribution.
uint64_t memory_beside_extents(uint64_t memory_bytes, uint64_t bucket_bytes, size_t block_bytes);
Status check_lists(const BucketPlan& plan, uint64_t input_bytes);
// Number of blocks that a distribution may write before its lists exceed the plan.
uint64_t listed_blocks_max(const BucketPlan& plan);

// Appends like push_back(), but keeps at most a quarter of the list in reserve.
template <class T>
void append_to_list(std::vector<T>& list, T value) {
  if (list.size() == list.capacity()) list.reserve(list.size() + list.size() / 4 + 4);
  list.push_back(value);
}

}  // namespace penstock::external
