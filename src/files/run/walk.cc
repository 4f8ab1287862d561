#include "files/run/walk.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bits.h"
#include "files/run/memory_plan.h"
#include "files/source/in_order.h"
#include "penstock/source.h"

namespace penstock::files {
namespace {

// The blocks are larger than a sort's, so that every input that can be sorted can be walked over.
constexpr size_t walk_block_bytes_max = 32 * MiB;
constexpr uint32_t read_ahead_blocks = 3;
// Blocks of the longest item. (The one before it is held as well, and a key of it that is made.)
constexpr uint32_t item_blocks_max = 6;
constexpr uint64_t bytes_between_looks = 256 * KiB;  // bytes between two checks of `cancel`

// The options without an order: rows as they stand in the file.
FilesOptions without_keys(const FilesOptions& options) {
  FilesOptions plain = options;
  if (!plain.format.framing().has_members) plain.format.keys = nullptr;
  plain.format.columns = nullptr;
  return plain;
}

}  // namespace

Status walk_items(const FilesOptions& options, bool descending, const std::vector<size_t>& numbers,
                  const VisitItem& visit) {
  const size_t block_bytes = std::clamp<size_t>(std::bit_floor(options.memory_bytes / 32),
                                                block_bytes_min, walk_block_bytes_max);
  PieceReaders readers(options, {.block_bytes = block_bytes,
                                 .read_ahead_blocks = read_ahead_blocks,
                                 .comeback_blocks = item_blocks_max});
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
    Cursor cursor(order, place.path, *reader, item_blocks_max);
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

namespace {

struct LongLine {
  size_t input = 0;    // number of its input
  uint64_t item = 0;   // index in it, with the lines of the header
  uint64_t line = 1;   // 1-based, where it begins
  uint64_t begin = 0;  // offset
  uint64_t bytes = 0;
};

// Reads the items of an input until is_wanted(item), and returns that one; empty also if the input
// cannot be read, or after `cancel`. Takes little memory, however long they are.
template <class IsWanted>
std::optional<LongLine> find_item(const FilesOptions& options, size_t input, IsWanted is_wanted) {
  const items::Format& format = options.format;
  const std::optional<char> quote = format.counted_quote();
  const auto source = open_source(input_name(options, input), options.source);
  if (!source) return {};
  LongLine now{.input = input};
  std::vector<std::byte> room(256 * KiB);
  bool quoted = false;
  uint64_t lines_inside = 0;  // line ends in quotes
  for (;;) {
    const auto have = (*source)->read(room);
    if (!have || *have == 0) break;
    if (options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed)) return {};
    for (const std::byte byte : std::span(room).first(*have)) {
      const char c = static_cast<char>(byte);
      ++now.bytes;
      quoted ^= c == quote;
      if (c != format.line_end) continue;
      ++lines_inside;
      if (quoted) continue;
      if (is_wanted(now)) return now;
      ++now.item;
      now.line += std::exchange(lines_inside, 0);
      now.begin += std::exchange(now.bytes, 0);
    }
  }
  return now.bytes > 0 && is_wanted(now) ? std::optional(now) : std::nullopt;
}

// Finds the item of such an error in the inputs that can be read again: the first that is too long,
// from the error's item on if it names an input.
std::optional<LongLine> find_long_line(const FilesOptions& options, const Error& error) {
  std::vector<size_t> numbers = named_files(options);
  const auto is_other = [&](size_t number) { return input_name(options, number) != error.subject; };
  uint64_t items_before = 0;  // that are not too long
  if (!std::ranges::all_of(numbers, is_other)) {
    std::erase_if(numbers, is_other);
    if (error.item > 0) items_before = options.format.header_lines + error.item - 1;
  }
  for (const size_t number : numbers) {
    const auto found = find_item(options, number, [&](const LongLine& line) {
      return line.bytes > error.item_bytes_max && line.item >= items_before;
    });
    if (found) return found;
  }
  return {};
}

// Returns the budget of a merge that holds the longest items of all inputs at once, with a copy of
// the longest and, if there are any, made keys; blocks leave five eighths of a budget. The other
// inputs are read as far as the one with the item `found`, or a share of a GiB; a pipe is assumed to
// have such an item, too.
uint64_t budget_of_merge(const FilesOptions& options, const LongLine& found) {
  const size_t inputs = input_count(options);
  const uint64_t end = std::max(found.begin + found.bytes, GiB / inputs);
  uint64_t all_bytes = 0, longest_bytes = found.bytes;
  for (size_t number = 0; number < inputs; ++number) {
    uint64_t bytes = found.bytes;
    if (is_named_file(options, number)) {
      bytes = 0;
      (void)find_item(options, number, [&](const LongLine& line) {
        bytes = std::max(bytes, line.bytes);
        return line.begin + line.bytes >= end;
      });
    }
    all_bytes += bytes;
    longest_bytes = std::max(longest_bytes, bytes);
  }
  const bool makes_keys = options.format.keys != nullptr || options.format.columns != nullptr;
  const uint64_t copied_bytes = longest_bytes + (makes_keys ? all_bytes : 0);
  return budget_for((all_bytes + copied_bytes) * 8 / 5);
}

// Adds the place of an item that is too long, and the memory that holds it. The longest item that
// fits doubles with the memory, if not sooner. (An item that borrows from blocks, which has a number,
// may need as much for a copy.)
Error with_long_line(Error error, const FilesOptions& options, bool merges) {
  const uint64_t bytes_max = error.item_bytes_max;
  const auto enough = [&, copies = error.item > 0 ? 2 : 1](uint64_t bytes) {
    return ceil_div(options.memory_bytes, uint64_t{MiB}) *
           std::bit_ceil(ceil_div(copies * bytes, bytes_max));
  };
  const auto found = options.format.has_line_ends() ? find_long_line(options, error) : std::nullopt;
  if (!found) {
    error.hint += fmt::format(", such as {}M", enough(2 * bytes_max));
    return error;
  }
  error = items::too_long(options.format, bytes_max, input_name(options, found->input)).error();
  error.attempted += fmt::format(": line {} has {}", found->line, found->bytes);
  uint64_t budget = enough(found->bytes);
  if (merges) {
    const uint64_t bytes = budget_of_merge(options, *found);
    budget = bytes > options.memory_bytes ? ceil_div(bytes, uint64_t{MiB}) : budget;
  }
  error.hint = fmt::format("-S {}M", budget);
  return error;
}

}  // namespace

Error with_place(Error error, const FilesOptions& options, bool merges) {
  if (error.item_bytes_max > 0) return with_long_line(std::move(error), options, merges);
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
