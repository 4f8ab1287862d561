#pragma once

// Ways of a sort: their input, their result, and their names. dispatch.cc chooses among them.

#include <optional>
#include <string>
#include <vector>

#include "files/sort/bucket.h"
#include "files/sort/bucket/bucket_sort.h"
#include "files/sort/context.h"
#include "files/sort/plan/sort_planner.h"

namespace penstock::external {

class Resume;

// A sort to be done: its input, and the decision how. Thread safety: one thread.
struct SortTask {
  Context& context;
  SortInput& input;
  const SortDecision& decision;
  const std::vector<std::string>& temp_directories;
  Resume* resume = nullptr;  // set if the sort can be resumed
  uint64_t total_bytes = 0;  // planned bytes to read and write

  const SortOptions& options() const { return context.options; }
  const SortPlan& plan() const { return decision.plan; }
  // Planned bytes to read and write, for the progress of a phase.
  uint64_t planned_bytes() const { return plan().bytes_read + plan().bytes_written; }
};

// Fails if the disks lack room for `temp_bytes` of temporaries and an output of `output_bytes`.
Status check_space(const SortTask& task, uint64_t temp_bytes, uint64_t output_bytes);
// Fails if they lack room for a sort of all items whose output is cut afterwards.
Status check_space_for_all(const SortTask& task);

// Result and account of a way.
struct Outcome {
  Stored stored = {};
  Method method = Method::empty;
  uint32_t passes_more = 0;  // passes over the data beyond the first
  uint64_t temp_bytes = 0;
  uint64_t spilled_bytes = 0;  // bytes that went to temporaries, before compression
  uint64_t kept_bytes = 0;
  // Checksum of the distributed items; empty if the way merged, or kept the first items in memory.
  std::optional<ItemSum> read = {};
  PipelineTimes times = {};
  size_t read_block_bytes = 2 * MiB;  // block of the input's reader
  bool has_rest = false;              // the output has bytes behind the stored ones, to be cut off

  // Adds the outcome of a later part of the same sort, whose items follow these.
  Outcome& operator+=(const Outcome& part);
};

Outcome outcome_of(const Stored& stored, const BucketSortStats& done);

enum class SortWay {
  nothing,      // the input is empty
  first_items,  // one read keeps the first K items                        first_items.cc
  cut,          // all items are sorted, and the output is cut             first_items.cc
  stretches,    // a few sorted stretches are merged where they lie        sorted_stretches.cc
  long_runs,    // the executor distributes, on a disk that seeks slowly   long_runs.cc
  buckets,      // everything else: split, then sort the buckets           buckets.cc
};

// Sorts all items, or the first K, to the target.
Result<Outcome> sort_by(SortWay way, SortTask& task, const Target& target);
SortWay way_of(const SortDecision& decision);
// The way to sort all items, of a sort that cuts off the first K.
SortWay way_of_all(const SortDecision& decision);
// The way to sort if there are too many stretches to merge.
SortWay way_of_rest(const SortDecision& decision);

// Each way. If it turns out not to be possible, it continues with another one.
Result<Outcome> sort_by_first_items(SortTask& task, const Target& target);
Result<Outcome> sort_by_cut(SortTask& task, const Target& target);
Result<Outcome> sort_by_stretches(SortTask& task, const Target& target);
Result<Outcome> sort_by_long_runs(SortTask& task, const Target& target);
Result<Outcome> sort_by_buckets(SortTask& task, const Target& target);

}  // namespace penstock::external
