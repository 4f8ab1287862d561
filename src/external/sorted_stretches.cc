#include "external/sorted_stretches.h"

#include <algorithm>

#include "external/cursor.h"
#include "external/memory_plan.h"

namespace penstock::external {
namespace {

constexpr uint32_t items_between_pulses = 4096;

}  // namespace

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

}  // namespace penstock::external
