#include "files/sort/bucket/bucket_sort.h"
#include "files/sort/plan/sort_planner.h"
#include "files/sort/ways/way.h"

namespace penstock::external {

Result<Outcome> sort_by_buckets(SortTask& task, const Target& target) {
  task.context.set_phase("distribute", task.total_bytes);
  BucketSort sort(task.context, task.input.usable_bytes, task.temp_directories,
                  task.plan().compresses, task.resume);
  auto stored = sort.run({.pieces = task.input.pieces,
                          .bytes = expected_bytes(task.options(), task.input),
                          .known = task.input.known,
                          .sample = std::move(task.input.sample)},
                         target);
  if (!stored) return std::unexpected(stored.error());
  return outcome_of(*stored, sort.stats());
}

Outcome outcome_of(const Stored& stored, const BucketSortStats& done) {
  return {.stored = stored,
          .method = done.levels == 0 ? Method::in_memory : Method::distribute,
          .passes_more = done.levels,
          .temp_bytes = done.stored_bytes,
          .spilled_bytes = done.spilled_bytes,
          .kept_bytes = done.kept_bytes,
          .read = done.read,
          .times = done.times,
          .read_block_bytes = done.read_block_bytes};
}

}  // namespace penstock::external
