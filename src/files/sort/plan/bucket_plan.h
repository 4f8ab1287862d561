#pragma once

// How a sort divides its memory among buckets, their blocks, and those who sort them. All figures
// in bytes unless the name says otherwise.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "files/run/memory_plan.h"
#include "files/sort/external_sort.h"

namespace penstock::external {

// What is known of each block in a temporary, as long as its bucket waits: its number, 4 bytes
// (split.h), and its check and how long it is, 8 (StoredBlock, or io/block_checks.h). What lists
// have in reserve while they grow is a quarter of that (append_to_list()).
inline constexpr uint64_t list_bytes_per_block = (4 + 8) * 5 / 4;
// What one of several threads that distribute takes of the input at a time, at most.
inline constexpr size_t split_window_bytes_max = 512 * KiB;
// Lists of so much are planned for in any case.
inline constexpr uint64_t lists_free_bytes = 64 * KiB;

struct BucketPlan {
  bool fits = false;     // expected: nothing goes to temporaries
  uint32_t buckets = 0;  // to cut for
  uint64_t arena_bytes = 0;
  size_t block_bytes = 0;       // in which buckets grow, and are written to temporaries
  uint32_t write_blocks = 0;    // free or being written, at least, while something is spilled
  size_t read_block_bytes = 0;  // of the input
  uint32_t read_blocks = 8;
  uint64_t item_bytes_max = 0;  // which the reader can come back to
  unsigned split_threads = 1;   // that distribute side by side
  uint64_t split_bytes = 0;     // their lines and tables
  // The second phase: sorts side by side, each by so many threads.
  unsigned sorters = 1;
  unsigned sorter_threads = 1;
  uint64_t sorters_bytes = 0;  // what these take beside the arena, for the largest bucket planned
  uint64_t region_bytes_max = 0;  // of the arena, for a bucket that is sorted as it is
  // Of an output that sorters fill in blocks: one is filled while the others are written. Of one
  // that is written from the arena: its requests.
  size_t output_block_bytes = 0;
  uint32_t output_blocks = 0;
  uint32_t splits = 0;  // how often an item is distributed; 0: all of it stays in memory
  // For the lists of what lies in temporaries, beside all of the above. Where the memory does not
  // suffice for them, nothing may begin.
  uint64_t lists_bytes = 0;
  bool holds = true;
  // What memory holds of the input while it is distributed, and what it expects to stay between the
  // phases, where there is less room: while it is sorted an item takes so much more of it.
  uint64_t held_bytes = 0;
  uint64_t kept_bytes = 0;
  double region_share = 1;
  // Of the input, what is sorted in the arena at a time.
  uint64_t bytes_in_arena() const {
    return static_cast<uint64_t>(static_cast<double>(arena_bytes) / region_share);
  }
};

// What is sorted.
struct BucketInput {
  uint64_t bytes = 0;     // expected
  bool known = true;      // for certain
  double item_bytes = 0;  // on average, expected
  bool in_order = false;  // the output takes items in order only
};

BucketPlan plan_buckets(const SortOptions& options, uint64_t memory_bytes,
                        const BucketInput& input);
// Of each level that distributes, as it would be planned: the first one's input, and the largest
// bucket of each other, with the memory that the lists of those before leave. The last plan says
// whether all hold.
std::vector<BucketPlan> plan_levels(const SortOptions& options, uint64_t memory_bytes,
                                    BucketInput input);
// How often items of such an input are distributed before their bucket can be sorted.
uint32_t splits_of(const SortOptions& options, const BucketPlan& plan, const BucketInput& input);

// What a bucket takes of the arena while it is sorted. Of numbers its items, and what aligns it to
// its place in the output; of records and lines its items, and behind them their pairs.
uint64_t region_bytes_of(const items::Format& format, uint64_t bytes, uint64_t items);
// Where the pairs begin.
uint64_t pairs_offset(uint64_t bytes);

// ---- lists of what is known of each block in a temporary

// The pieces in which a bucket is read that is distributed again, with so much memory.
size_t extent_bytes_for(uint64_t memory_bytes, size_t block_bytes);
// What stays for its distribution beside the list of them.
uint64_t memory_beside_extents(uint64_t memory_bytes, uint64_t bucket_bytes, size_t block_bytes);
// Fails where the plan does not hold.
Status check_lists(const BucketPlan& plan, uint64_t input_bytes);
// How many blocks a distribution may write before it has more lists than planned for.
uint64_t listed_blocks_max(const BucketPlan& plan);

// As push_back(), but at most a quarter is in reserve.
template <class T>
void append_to_list(std::vector<T>& list, T value) {
  if (list.size() == list.capacity()) list.reserve(list.size() + list.size() / 4 + 4);
  list.push_back(value);
}

}  // namespace penstock::external
