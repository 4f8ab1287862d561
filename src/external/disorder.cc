#include <algorithm>
#include <bit>

#include "external/cursor.h"
#include "external/external_sort.h"
#include "external/file_io.h"
#include "external/memory_plan.h"
#include "record/codec.h"

namespace penstock::external {
namespace {

// Larger than the blocks of a sort, so that what could be sorted can also be checked.
constexpr size_t check_block_bytes_max = 32 * MiB;
constexpr uint32_t read_ahead_blocks = 6;
constexpr uint32_t items_between_pulses = 4096;
constexpr size_t text_bytes_max = 120;

std::string number_text(record::Type type, std::string_view item) {
  const auto* bytes = reinterpret_cast<const std::byte*>(item.data());
  switch (type) {
    case record::Type::u32:
      return std::to_string(record::load<uint32_t>(bytes));
    case record::Type::i32:
      return std::to_string(record::load<int32_t>(bytes));
    case record::Type::f32:
      return std::to_string(record::load<float>(bytes));
    case record::Type::i64:
      return std::to_string(record::load<int64_t>(bytes));
    case record::Type::f64:
      return std::to_string(record::load<double>(bytes));
    default:
      return std::to_string(record::load<uint64_t>(bytes));
  }
}

// The item for a message: a number, or the key's bytes with those that cannot be printed as \xHH.
std::string text_of(const record::Format& format, const Cursor& cursor) {
  if (format.numeric()) return number_text(format.type, cursor.item());
  std::string text;
  for (unsigned char byte : cursor.full_key().substr(0, text_bytes_max)) {
    constexpr char digits[] = "0123456789abcdef";
    if (byte >= 0x20 && byte != 0x7f) {
      text.push_back(static_cast<char>(byte));
    } else {
      text += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return text;
}

}  // namespace

Result<std::optional<Disorder>> find_disorder(const SortOptions& options) {
  Context context(options);
  // A line may take a block.
  size_t block_bytes = std::clamp<size_t>(std::bit_floor(options.memory_bytes / 32),
                                          block_bytes_min, check_block_bytes_max);
  auto files = FileIo::open(options, block_bytes, read_ahead_blocks + 2);
  if (!files) return std::unexpected(files.error());
  stream::BlockIo& io = files->io();
  for (const std::string& path : options.inputs) {
    auto file = file::File::open_read(path);
    if (!file) return std::unexpected(file.error());
    Piece piece{.file = &*file};
    if (file->seekable()) {
      auto size = file->size();
      if (!size) return std::unexpected(size.error());
      piece.bytes = *size;
      if (piece.bytes == 0) continue;
    }
    auto reader = file->seekable() ? PieceReader::open(io, piece, read_ahead_blocks)
                                   : PieceReader::open_pipe(io, *file, read_ahead_blocks, 1);
    if (!reader) return std::unexpected(reader.error());
    Cursor cursor(options, path, *reader);
    LastItem last;
    uint64_t item = 0;
    for (; cursor.next(); ++item) {
      if (item % items_between_pulses == 0) {
        if (auto status = context.pulse(); !status) return std::unexpected(status.error());
      }
      if (last.any()) {
        int order = last.compare(options, cursor);
        if (order > 0 || (options.unique && order == 0)) {
          return Disorder{path, item, text_of(options.format, cursor)};
        }
      }
      last.set(cursor);
    }
    if (auto status = cursor.status(); !status) return std::unexpected(status.error());
  }
  return std::optional<Disorder>{};
}

}  // namespace penstock::external
