#include "external/ways/sorted_stretches.h"

#include <algorithm>

#include "bowtie/computations.h"
#include "files/cursor.h"
#include "files/file_run.h"
#include "files/memory_plan.h"

namespace penstock::external {
Result<Stretches> find_stretches(Context& context, const std::vector<Piece>& pieces,
                                 uint64_t memory_bytes, uint32_t stretches_max) {
  const record::ItemOrder order = context.options.order();
  size_t block_bytes = block_within(memory_bytes / 16);
  constexpr uint32_t read_ahead_blocks = 6;
  PieceReaders readers(context.options,
                       {.block_bytes = block_bytes, .read_ahead_blocks = read_ahead_blocks});
  Stretches found;
  for (const Piece& piece : pieces) {
    auto reader = readers.open(piece);
    if (!reader) return std::unexpected(reader.error());
    Cursor cursor(order, piece.file->path(), *reader);
    record::LastItem last;
    uint64_t start = piece.offset;
    uint64_t at = start;
    for (uint64_t count = 0; cursor.next(); ++count) {
      if (count % items_between_pulses == 0) {
        if (auto status = context.pulse(); !status) return std::unexpected(status.error());
      }
      if (last.any() && last.compare(order, cursor.prefix(), cursor.item()) > 0) {
        found.pieces.push_back({.file = piece.file, .offset = start, .bytes = at - start});
        start = at;
        if (found.pieces.size() >= stretches_max) return Stretches{};
      }
      last.set(order, cursor.prefix(), cursor.item());
      at += cursor.item().size();
      found.item_bytes_max = std::max<uint64_t>(
          found.item_bytes_max, cursor.item().size() + (cursor.lacks_newline() ? 1 : 0));
    }
    if (auto status = cursor.status(); !status) {
      // An item that is too long for a look may still be sorted.
      if (status.error().code == ErrorCode::out_of_memory) return Stretches{};
      return std::unexpected(status.error());
    }
    found.pieces.push_back({.file = piece.file, .offset = start, .bytes = at - start});
  }
  return found;
}

uint32_t stretches_max(const record::Format& format, uint64_t memory_bytes) {
  return streams_max(format, memory_bytes) - 1;
}

uint64_t stretch_item_bytes_max(const record::Format& format, size_t stretches,
                                uint64_t memory_bytes) {
  return item_bytes_max_of_pass(format, static_cast<uint32_t>(stretches) + 1, memory_bytes);
}

Result<Stored> merge_stretches(Context& context, const std::vector<Piece>& stretches,
                               uint64_t memory_bytes, const Target& target) {
  const SortOptions& options = context.options;
  FilesOptions files = options;
  // The merge is a phase of the sort, and goes on counting where that was.
  if (options.progress) files.progress = [&context](const Progress&) { (void)context.pulse(); };
  FileRun run(files, "sort");
  std::vector<bowtie::Input> inputs;
  Stored stored;
  for (const Piece& stretch : stretches) {
    inputs.push_back({.file = stretch.file, .offset = stretch.offset, .bytes = stretch.bytes});
    stored.bytes += stretch.bytes + 1;
  }
  run.start_with(std::move(inputs));
  const record::Format& format = options.format;
  const bowtie::MergeOptions how{.descending = options.descending,
                                 .unique = options.unique,
                                 .items_max = options.top.value_or(~uint64_t{0}),
                                 .items = &stored.items};
  auto status = run.pass(
      run.inputs(), {{.file = target.file, .offset = target.offset, .bytes_max = stored.bytes}},
      bowtie::merge(format, how),
      {.format = format, .memory_bytes = memory_bytes, .phase = "merge"});
  if (!status) return std::unexpected(status.error());
  stored.bytes = run.output_bytes();
  context.occupancy().add(run.stats().staircases);
  return stored;
}

}  // namespace penstock::external
