#include "files/run/item_reader.h"

#include <algorithm>
#include <utility>

#include "files/run/input.h"
#include "files/run/odd_items.h"
#include "files/source/checked_read.h"
#include "files/source/in_order.h"

namespace penstock::files {

Result<size_t> ItemReader::read(std::span<std::byte> into) {
  if (first_.empty()) return source::checked_read(*source_, into);
  const size_t bytes = first_.copy(reinterpret_cast<char*>(into.data()), into.size());
  first_.erase(0, bytes);
  return bytes;
}

Status ItemReader::open_next() {
  cutter_.begin(input_name(options_, opened_));
  auto file = open_input(options_, opened_++);
  if (!file) return std::unexpected(file.error());
  auto source = source::source_of(
      *file, source::within_memory(options_.source, options_.memory_bytes), options_.cancel);
  if (!source) return std::unexpected(source.error());
  source_ = std::move(*source);
  return format_.has_head() ? take_header() : Status{};
}

Status ItemReader::take_header() {
  const std::string name = cutter_.name();
  auto header = read_header(options_.format, name, [&](auto into) { return read(into); });
  if (!header) return std::unexpected(header.error());
  if (header->is_of_nothing) return {};
  const auto lines = static_cast<uint64_t>(std::ranges::count(header->text, format_.line_end));
  const uint64_t rows = format_.header_lines;
  cutter_.begin(name, header->bytes, {.line = std::max(lines, rows) + 1, .row = rows + 1});
  first_ = std::move(header->rest);
  if (std::exchange(has_header_, true))
    return check_same_header(format_, header->text, name, header_, header_file_);
  auto format = items::with_header(options_.format, header->text, name);
  if (!format) return std::unexpected(format.error());
  format_ = std::move(*format);
  header_ = std::move(header->text);
  header_file_ = name;
  return {};
}

// Reads more of the input, or notes its end. REQUIRES: the item was dropped.
Status ItemReader::fill() {
  const auto room = cutter_.room();
  if (!room) return std::unexpected(room.error());
  const auto bytes = read(*room);
  if (!bytes) return std::unexpected(bytes.error());
  cutter_.add(*bytes);
  if (*bytes == 0) cutter_.finish();
  return {};
}

// Makes the first `bytes` of the text the item.
Result<bool> ItemReader::take(size_t bytes) {
  const std::string_view item = cutter_.text().substr(0, bytes);
  bool is_even = true;
  if (const auto fault = items::fault_of(format_, item, is_even)) {
    const auto above = std::ranges::count(item.substr(0, fault->at), format_.line_end);
    items::Place place = cutter_.place();
    place.line += static_cast<uint64_t>(above);
    return items::bad_item(format_, place.text(format_), *fault, cutter_.offset(), cutter_.name());
  }
  if (!is_even && options_.odd_items != nullptr)
    options_.odd_items->add(OddKind::length, cutter_.name(), cutter_.place().row, format_, item);
  cutter_.take(bytes);
  return true;
}

Result<bool> ItemReader::next() {
  cutter_.drop(item().size());
  for (;;) {
    const std::string_view text = cutter_.text();
    if (!text.empty() && cutter_.is_due()) {
      const auto* const at = reinterpret_cast<const std::byte*>(text.data());
      if (const size_t bytes = items::item_bytes_at(format_, at, at + text.size()); bytes > 0)
        return take(bytes);
      cutter_.defer();
    }
    if (source_ != nullptr) {
      if (Status filled = fill(); !filled) return std::unexpected(filled.error());
      if (cutter_.has_ended()) source_.reset();
      continue;
    }
    // The rest of an input is an item without an end.
    if (!text.empty() && format_.fixed())
      return failure(ErrorCode::corrupt, "read a whole item at its end", cutter_.name(),
                     "another --format or --record");
    if (!text.empty()) {
      const auto taken = take(text.size());
      if (taken && items::lacks_line_end(format_, item())) cutter_.end_line();
      return taken;
    }
    if (opened_ == input_count(options_)) return false;
    if (Status opened = open_next(); !opened) return std::unexpected(opened.error());
  }
}

}  // namespace penstock::files
