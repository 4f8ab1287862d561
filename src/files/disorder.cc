#include <algorithm>
#include <bit>

#include "files/cursor.h"
#include "files/input.h"
#include "files/memory_plan.h"
#include "files/merge_files.h"
#include "files/run_context.h"
#include "source/in_order.h"

namespace penstock::files {
namespace {

// Larger than the blocks of a sort, so that what could be sorted can also be checked.
constexpr size_t check_block_bytes_max = 32 * MiB;
constexpr uint32_t read_ahead_blocks = 6;

}  // namespace

Result<std::optional<Disorder>> find_disorder(const MergeFilesOptions& given) {
  MergeFilesOptions options = given;
  RunContext context(options, "sort");
  // A line may take a block.
  size_t block_bytes = std::clamp<size_t>(std::bit_floor(options.memory_bytes / 32),
                                          block_bytes_min, check_block_bytes_max);
  PieceReaders readers(options,
                       {.block_bytes = block_bytes, .read_ahead_blocks = read_ahead_blocks});
  for (size_t i = 0; i < input_count(options); ++i) {
    const std::string path = input_name(options, i);
    auto file = open_input(options, i);
    if (!file) return std::unexpected(file.error());
    const auto arrival = source::arrival_of(*file, options.source);
    if (!arrival) return std::unexpected(arrival.error());
    Piece piece{.file = &*file, .in_order = arrival->in_order};
    if (!piece.in_order) {
      auto size = file->size();
      if (!size) return std::unexpected(size.error());
      piece.bytes = *size;
      if (piece.bytes == 0) continue;
    }
    auto reader = readers.open(piece);
    if (!reader) return std::unexpected(reader.error());
    if (options.format.header_lines > 0) {
      auto header = (*reader)->take_header(options.format, path);
      if (!header) return std::unexpected(header.error());
      auto format = record::with_header(given.format, *header);
      if (!format) {
        format.error().subject = path;
        return std::unexpected(format.error());
      }
      options.format = std::move(*format);
    }
    const record::ItemOrder order = options.order();
    Cursor cursor(order, path, *reader);
    record::LastItem last;
    uint64_t item = 0;
    for (; cursor.next(); ++item) {
      if (item % items_between_pulses == 0) {
        if (auto status = context.pulse(); !status) return std::unexpected(status.error());
      }
      if (last.any()) {
        const int compared = last.compare(order, cursor.prefix(), cursor.item());
        if (compared > 0 || (options.unique && compared == 0)) {
          return Disorder{path, options.format.header_lines + item,
                          record::printable_key(options.format, cursor.item()),
                          std::string(record::without_line_end(options.format, cursor.item()))};
        }
      }
      last.set(order, cursor.prefix(), cursor.item());
    }
    if (auto status = cursor.status(); !status) return std::unexpected(status.error());
  }
  return std::optional<Disorder>{};
}

}  // namespace penstock::files
