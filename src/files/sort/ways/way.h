#pragma once

// The ways of a sort: their input, their result, and their names. dispatch.cc chooses among them.

#include <optional>
#include <string>
#include <vector>

#include "files/sort/bucket.h"
#include "files/sort/bucket/bucket_sort.h"
#include "files/sort/context.h"
#include "files/sort/plan/sort_planner.h"

namespace penstock::external {

class Resume;

// The input of a sort, and what was decided for it. Thread safety: one thread.
struct Task {
  Context& context;
  SortInput& input;
  const SortDecision& decision;
  const std::vector<std::string>& temp_directories;
  Resume* resume = nullptr;  // where the sort can be resumed
  uint64_t total_bytes = 0;  // of reading and writing, as far as it is planned

  const SortOptions& options() const { return context.options; }
  const SortPlan& plan() const { return decision.plan; }
  // Reading and writing as planned, for the progress of a phase.
  uint64_t planned_bytes() const { return plan().bytes_read + plan().bytes_written; }
};

// Fails where the disks lack room for `temp_bytes` of temporaries and an output of `output_bytes`.
Status check_space(const Task& task, uint64_t temp_bytes, uint64_t output_bytes);
// Fails where they lack room for a sort of all items whose output is cut afterwards.
Status check_space_for_all(const Task& task);

// The result and the account of a way.
struct Outcome {
  Stored stored = {};
  Method method = Method::empty;
  uint32_t passes_more = 0;  // passes over the data beyond the first
  uint64_t temp_bytes = 0;
  uint64_t spilled_bytes = 0;  // what went to temporaries, before it was compressed
  uint64_t kept_bytes = 0;
  // Checksum of the distributed items; empty if the way merged, or kept the first items in memory.
  std::optional<ItemSum> read = {};
  PipelineTimes times = {};
  size_t read_block_bytes = 2 * MiB;  // of the pool that reads the input
  bool has_rest = false;  // the output goes on behind what is stored, and is to be cut there

  // Adds what a part of the same sort did, whose items follow those of this one.
  Outcome& operator+=(const Outcome& part);
};

Outcome outcome_of(const Stored& stored, const BucketSortStats& done);

enum class Way {
  nothing,      // the input is empty
  first_items,  // one read keeps the first K items                        first_items.cc
  cut,          // all items are sorted, and the output is cut             first_items.cc
  stretches,    // a few sorted stretches are merged where they lie        sorted_stretches.cc
  long_runs,    // the executor distributes, on a disk that seeks slowly   long_runs.cc
  buckets,      // everything else: split, then sort the buckets           buckets.cc
};

// Sorts all items, or the first K, to the target.
Result<Outcome> sort_by(Way way, Task& task, const Target& target);
Way way_of(const SortDecision& decision);
// The way of all items, where the first K are cut off them.
Way way_of_all(const SortDecision& decision);
// The way that is left where a look finds too many stretches.
Way way_of_rest(const SortDecision& decision);

// The ways by themselves. Those that turn out not to be possible go on by another one.
Result<Outcome> sort_by_first_items(Task& task, const Target& target);
Result<Outcome> sort_by_cut(Task& task, const Target& target);
Result<Outcome> sort_by_stretches(Task& task, const Target& target);
Result<Outcome> sort_by_long_runs(Task& task, const Target& target);
Result<Outcome> sort_by_buckets(Task& task, const Target& target);

}  // namespace penstock::external
