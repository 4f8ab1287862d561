// Sort of the first K items. One read keeps them if memory holds that many (top_items.cc).
// Otherwise items that a sample excludes are left out, the rest is sorted, and the output cut.

#include <algorithm>
#include <memory>
#include <vector>

#include "files/sort/ways/top_items.h"
#include "files/sort/ways/way.h"
#include "io/file.h"

namespace penstock::external {
namespace {

Result<io::File> checked_temporary(const SortTask& task) {
  auto file = io::File::create_temporary(task.temp_directories.front());
  if (file) file->keep_checks();
  return file;
}

// Replaces the input by its items up to a key that the sample suggests, if these are as many as are
// wanted, and none is too long to be looked at; otherwise keeps the input.
Status keep_what_may_be_first(SortTask& task, Outcome& outcome) {
  SortInput& input = task.input;
  task.context.set_phase("keep what may be first", task.planned_bytes());
  auto file = checked_temporary(task);
  if (!file) return std::unexpected(file.error());
  auto kept_file = std::make_unique<io::File>(std::move(*file));
  const TopLimit limit = limit_of_share(task.options(), input.sample, task.decision.kept_share);
  const auto kept = keep_below(task.context, input.pieces, input.usable_bytes, limit, *kept_file);
  if (!kept && kept.error().code != ErrorCode::out_of_memory) return std::unexpected(kept.error());
  outcome.passes_more = 1;
  if (kept) outcome.temp_bytes = outcome.spilled_bytes = kept->bytes;
  if (!kept || kept->items < *task.options().top) {
    kept_file.reset();
    return check_space_for_all(task);
  }
  outcome.read = kept->sum;
  input.pieces = {{.file = kept_file.get(), .bytes = kept->bytes}};
  input.files.push_back(std::move(kept_file));
  input.bytes = kept->bytes;
  input.sample = {};
  return look_at_files(task.context, task.plan().device, input);
}

Status copy_first(Context& context, const io::File& from, const Target& target, uint64_t bytes) {
  std::vector<std::byte> window(1 * MiB);
  for (uint64_t done = 0; done < bytes;) {
    if (auto status = context.pulse(); !status) return status;
    const auto piece = std::min<uint64_t>(window.size(), bytes - done);
    if (auto status = io::read_exactly(from, done, window.data(), piece); !status) return status;
    if (auto status = io::write_exactly(*target.file, target.offset + done, window.data(), piece);
        !status)
      return status;
    done += piece;
  }
  return {};
}

std::unexpected<Error> not_so_many(const io::File& file) {
  return failure(ErrorCode::corrupt, "find the end of the first items", file.path());
}

// Follows the lengths of rows from the front.
Result<uint64_t> bytes_of_first_rows(const items::Format& format, const io::File& file,
                                     uint64_t offset, const Stored& stored, uint64_t count) {
  std::vector<std::byte> window(256 * KiB);
  uint64_t end = 0;  // end of the rows passed
  for (uint64_t passed = 0; passed < count;) {
    const auto bytes = std::min<uint64_t>(window.size(), stored.bytes - end);
    if (auto status = io::read_exactly(file, offset + end, window.data(), bytes); !status)
      return std::unexpected(status.error());
    uint64_t at = 0;
    for (; passed < count && at < bytes; ++passed) {
      const size_t row_bytes =
          format.framing().item_bytes(format, window.data() + at, window.data() + bytes, {}, false);
      if (row_bytes == 0) break;
      at += row_bytes;
    }
    end += at;
    if (end > stored.bytes || (at == 0 && bytes < window.size())) return not_so_many(file);
    if (at == 0) window.resize(2 * window.size());
  }
  return end;
}

}  // namespace

// Lines are counted from the end: mostly few are too many.
Result<uint64_t> bytes_of_first(const SortOptions& options, const io::File& file, uint64_t offset,
                                const Stored& stored, uint64_t count) {
  if (stored.items <= count) return stored.bytes;
  if (options.format.fixed()) return count * options.format.record_bytes;
  if (count == 0) return 0;
  const items::Framing& framing = options.format.framing();
  const std::optional<char> quote = options.format.counted_quote();
  if (!framing.has_line_ends || (framing.spans_lines && !quote))
    return bytes_of_first_rows(options.format, file, offset, stored, count);
  // The end of line `count` has this many line ends behind it.
  uint64_t behind = stored.items - count;
  bool quoted = false;
  std::vector<std::byte> window(256 * KiB);
  for (uint64_t end = stored.bytes; end > 0;) {
    const auto bytes = std::min<uint64_t>(window.size(), end);
    if (auto status = io::read_exactly(file, offset + end - bytes, window.data(), bytes); !status)
      return std::unexpected(status.error());
    for (uint64_t at = bytes; at > 0; --at) {
      if (quote && window[at - 1] == std::byte(*quote)) quoted = !quoted;
      if (quoted || window[at - 1] != std::byte(options.format.line_end)) continue;
      if (behind-- == 0) return end - bytes + at;
    }
    end -= bytes;
  }
  return not_so_many(file);
}

Result<Outcome> sort_by_first_items(SortTask& task, const Target& target) {
  task.context.set_phase("read", task.planned_bytes());
  auto stored = sort_top(task.context, task.input.pieces, task.input.usable_bytes,
                         *task.options().top, target);
  if (stored) return Outcome{.stored = *stored, .method = Method::top};
  // Items were longer than the sample said. Nothing is written yet, and files can be read again.
  const bool too_long = stored.error().code == ErrorCode::out_of_memory;
  if (!too_long || task.input.any_in_order()) return std::unexpected(stored.error());
  if (auto status = check_space_for_all(task); !status) return std::unexpected(status.error());
  return sort_by(SortWay::cut, task, target);
}

// Sorts all items and cuts the first K off. A regular output gets all items, and its owner cuts it.
// For another output a temporary gets them, and its first items are copied.
Result<Outcome> sort_by_cut(SortTask& task, const Target& target) {
  const uint64_t count = *task.options().top;
  Outcome before;
  if (task.decision.kept_share < 1) {
    if (auto status = keep_what_may_be_first(task, before); !status)
      return std::unexpected(status.error());
  }
  const bool in_place = target.file->kind() == io::Kind::regular;
  io::File sorted;
  if (!in_place) {
    auto file = checked_temporary(task);
    if (!file) return std::unexpected(file.error());
    sorted = std::move(*file);
  }
  const Target all = in_place ? target : Target{&sorted, 0};
  auto outcome = sort_by(way_of_all(task.decision), task, all);
  if (!outcome) return outcome;
  outcome->passes_more += before.passes_more;
  outcome->temp_bytes += before.temp_bytes;
  outcome->spilled_bytes += before.spilled_bytes;
  if (before.read) outcome->read = before.read;
  const auto bytes = bytes_of_first(task.options(), *all.file, all.offset, outcome->stored, count);
  if (!bytes) return std::unexpected(bytes.error());
  outcome->stored.items = std::min(outcome->stored.items, count);
  outcome->stored.bytes = *bytes;
  outcome->has_rest = in_place;
  if (in_place) return outcome;
  outcome->temp_bytes += *bytes;
  outcome->spilled_bytes += *bytes;
  ++outcome->passes_more;
  task.context.set_step("write");
  if (auto status = copy_first(task.context, sorted, target, *bytes); !status)
    return std::unexpected(status.error());
  return outcome;
}

}  // namespace penstock::external
