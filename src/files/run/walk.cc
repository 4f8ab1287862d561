#include "files/run/walk.h"

#include <algorithm>
#include <bit>

#include "files/run/memory_plan.h"
#include "files/source/in_order.h"

namespace penstock::files {
namespace {

// The blocks are larger than a sort's, so that every input that can be sorted can be walked over.
constexpr size_t walk_block_bytes_max = 32 * MiB;
constexpr uint32_t read_ahead_blocks = 6;
constexpr uint64_t bytes_between_looks = 256 * KiB;  // bytes between two checks of `cancel`

// The options without an order: rows as they stand in the file.
FilesOptions without_keys(const FilesOptions& options) {
  FilesOptions plain = options;
  plain.format.keys = nullptr;
  plain.format.columns = nullptr;
  return plain;
}

}  // namespace

Status walk_items(const FilesOptions& options, bool descending, const std::vector<size_t>& numbers,
                  const VisitItem& visit) {
  // A line may be as long as a block.
  const size_t block_bytes = std::clamp<size_t>(std::bit_floor(options.memory_bytes / 32),
                                                block_bytes_min, walk_block_bytes_max);
  PieceReaders readers(options,
                       {.block_bytes = block_bytes, .read_ahead_blocks = read_ahead_blocks});
  for (const size_t number : numbers) {
    ItemPlace place{.path = input_name(options, number)};
    auto file = open_input(options, number);
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
    items::Format format = options.format;
    if (format.has_head()) {
      auto header = (*reader)->take_header(format, place.path);
      if (!header) return std::unexpected(header.error());
      auto made = items::with_header(format, *header, place.path);
      if (!made) return std::unexpected(made.error());
      format = std::move(*made);
    }
    const items::ItemOrder order(format, descending);
    Cursor cursor(order, place.path, *reader);
    uint64_t bytes = 0;  // since the last check
    for (; cursor.next(); ++place.item) {
      bytes += cursor.item().size();
      if (bytes >= bytes_between_looks) {
        bytes = 0;
        if (options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed))
          return failure(ErrorCode::interrupted, "finish: it was asked to stop", place.path);
      }
      place.place = cursor.place();
      if (!visit(cursor, order, place)) return {};
    }
    if (auto status = cursor.status(); !status) return status;
  }
  return {};
}

std::vector<size_t> named_files(const FilesOptions& options) {
  std::vector<size_t> numbers;
  for (size_t i = 0; i < input_count(options); ++i) {
    if (is_named_file(options, i)) numbers.push_back(i);
  }
  return numbers;
}

std::optional<ItemPlace> find_row(const FilesOptions& options, const std::vector<size_t>& numbers,
                                  const std::function<bool(std::string_view row)>& is_it) {
  std::optional<ItemPlace> found;
  const FilesOptions plain = without_keys(options);
  const Status walked = walk_items(
      plain, false, numbers, [&](const Cursor& cursor, const auto&, const ItemPlace& place) {
        if (is_it(items::without_line_end(plain.format, cursor.item()))) found = place;
        return !found;
      });
  return walked ? found : std::nullopt;
}

Error with_place(Error error, const FilesOptions& options) {
  if (error.code != ErrorCode::corrupt || !options.format.has_rules() ||
      !options.format.has_line_ends())
    return error;
  const FilesOptions plain = without_keys(options);
  const Status walked =
      walk_items(plain, false, named_files(options),
                 [](const Cursor&, const auto&, const ItemPlace&) { return true; });
  return walked || walked.error().code != ErrorCode::corrupt ? error : walked.error();
}

}  // namespace penstock::files
