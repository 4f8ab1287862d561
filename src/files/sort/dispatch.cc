#include <algorithm>
#include <filesystem>

#include "files/run/odd_items.h"
#include "files/run/space.h"
#include "files/sort/external_sort.h"
#include "files/sort/ways/way.h"
#include "io/file.h"

namespace penstock::external {

SortWay way_of(const SortDecision& decision) {
  if (decision.plan.method == Method::empty) return SortWay::nothing;
  if (decision.cuts) return SortWay::cut;
  if (decision.plan.method == Method::top) return SortWay::first_items;
  return way_of_all(decision);
}

SortWay way_of_all(const SortDecision& decision) {
  return decision.plan.method == Method::merge ? SortWay::stretches : way_of_rest(decision);
}

SortWay way_of_rest(const SortDecision& decision) {
  return decision.plan.long_runs ? SortWay::long_runs : SortWay::buckets;
}

Result<Outcome> sort_by(SortWay way, SortTask& task, const Target& target) {
  // A way that gives up leaves its input to another one.
  files::OddItems* const odd_items = task.options().odd_items.get();
  for (const files::Piece& piece : task.input.pieces) {
    if (piece.is_given && odd_items != nullptr) odd_items->forget(piece.file->path());
  }
  switch (way) {
    case SortWay::nothing:
      return Outcome{};
    case SortWay::first_items:
      return sort_by_first_items(task, target);
    case SortWay::cut:
      return sort_by_cut(task, target);
    case SortWay::stretches:
      return sort_by_stretches(task, target);
    case SortWay::long_runs:
      return sort_by_long_runs(task, target);
    case SortWay::buckets:
      return sort_by_buckets(task, target);
  }
  return Outcome{};
}

Outcome& Outcome::operator+=(const Outcome& part) {
  stored += part.stored;
  method = part.method;
  passes_more = std::max(passes_more, part.passes_more);
  temp_bytes += part.temp_bytes;
  spilled_bytes += part.spilled_bytes;
  kept_bytes += part.kept_bytes;
  if (!read) read = part.read;
  times.sort_s += part.times.sort_s;
  times.wait_read_s += part.times.wait_read_s;
  times.wait_room_s += part.times.wait_room_s;
  read_block_bytes = part.read_block_bytes;
  has_rest |= part.has_rest;
  return *this;
}

Status check_space(const SortTask& task, uint64_t temp_bytes, uint64_t output_bytes) {
  const SortOptions& options = task.options();
  if (!task.input.known) return {};
  // A run that goes on has its temporaries already.
  std::error_code ignored;
  if (options.resume && std::filesystem::exists(resume_folder(options), ignored)) return {};
  return files::check_space({.output = options.output,
                             .output_bytes = output_bytes,
                             .temp_directories = task.temp_directories,
                             .temp_bytes = temp_bytes,
                             .memory_bytes = options.memory_bytes});
}

Status check_space_for_all(const SortTask& task) {
  const uint64_t bytes = task.input.bytes;
  const uint64_t sorted_bytes = fits_in_memory(task.options(), task.input) ? 0 : bytes;
  return check_space(task, sorted_bytes + (io::names_a_file(task.options().output) ? 0 : bytes),
                     bytes);
}

}  // namespace penstock::external
