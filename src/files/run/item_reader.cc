#include "files/run/item_reader.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "files/run/input.h"
#include "files/source/checked_read.h"
#include "files/source/in_order.h"

namespace penstock::files {
namespace {

constexpr size_t buffer_bytes = 256 * KiB;
// The search for the end of a longer item begins anew only when twice as many bytes are there.
constexpr size_t short_bytes = 64 * KiB;

}  // namespace

Result<size_t> ItemReader::read(std::span<std::byte> into) {
  if (first_.empty()) return source::checked_read(*source_, into);
  const size_t bytes = first_.copy(reinterpret_cast<char*>(into.data()), into.size());
  first_.erase(0, bytes);
  return bytes;
}

Status ItemReader::open_next() {
  name_ = input_name(options_, opened_);
  auto file = open_input(options_, opened_++);
  if (!file) return std::unexpected(file.error());
  auto source = source::source_of(
      *file, source::within_memory(options_.source, options_.memory_bytes), options_.cancel);
  if (!source) return std::unexpected(source.error());
  source_ = std::move(*source);
  item_begin_ = items_ = lines_ = 0;
  return format_.has_head() ? take_header() : Status{};
}

Status ItemReader::take_header() {
  auto header = read_header(options_.format, name_, [&](auto into) { return read(into); });
  if (!header) return std::unexpected(header.error());
  if (header->is_of_nothing) return {};
  item_begin_ = header->bytes;
  lines_ =
      std::max<uint64_t>(static_cast<uint64_t>(std::ranges::count(header->text, format_.line_end)),
                         format_.header_lines);
  first_ = std::move(header->rest);
  if (std::exchange(has_header_, true))
    return check_same_header(format_, header->text, name_, header_, header_file_);
  auto format = items::with_header(options_.format, header->text, name_);
  if (!format) return std::unexpected(format.error());
  format_ = std::move(*format);
  header_ = std::move(header->text);
  header_file_ = name_;
  return {};
}

// Reads more of the input; returns false at its end. REQUIRES: the buffer begins with an item.
Result<bool> ItemReader::fill() {
  if (buffer_.empty()) buffer_.resize(buffer_bytes);
  filled_ -= at_;
  if (at_ > 0) std::memmove(buffer_.data(), buffer_.data() + at_, filled_);
  at_ = 0;
  if (filled_ + 1 == buffer_.size()) {
    if (filled_ > item_bytes_max_) return items::too_long(format_, item_bytes_max_, name_);
    buffer_.resize(2 * buffer_.size());
  }
  const auto bytes = read(std::span(buffer_).subspan(filled_, buffer_.size() - filled_ - 1));
  if (!bytes) return std::unexpected(bytes.error());
  filled_ += *bytes;
  return *bytes > 0;
}

// Makes the first `bytes` of the buffer the item.
Result<bool> ItemReader::take(size_t bytes) {
  item_ = items::text_at(buffer_.data() + at_, bytes);
  if (const auto fault = items::fault_of(format_, item_)) {
    const auto above = std::ranges::count(item_.substr(0, fault->at), format_.line_end);
    const items::Place place{.line = lines_ + 1 + static_cast<uint64_t>(above),
                             .row = format_.header_lines + items_ + 1};
    return items::bad_item(format_, place.text(format_), *fault, item_begin_, name_);
  }
  ++items_;
  lines_ += items::lines_of_item(format_, item_);
  looks_from_ = 0;
  return true;
}

Result<bool> ItemReader::next() {
  item_begin_ += item_.size();
  at_ += std::exchange(item_, {}).size();
  for (;;) {
    const size_t have = filled_ - at_;
    if (have > looks_from_) {
      const std::byte* const at = buffer_.data() + at_;
      if (const size_t bytes = items::item_bytes_at(format_, at, at + have); bytes > 0)
        return take(bytes);
      looks_from_ = have < short_bytes ? have : 2 * have;
    }
    if (source_ != nullptr) {
      const auto more = fill();
      if (!more) return more;
      if (*more) continue;
      source_.reset();
      looks_from_ = 0;
      if (have > 0) continue;
    }
    // The rest of an input is an item without an end.
    if (have > 0 && format_.fixed())
      return failure(ErrorCode::corrupt, "read a whole item at its end", name_,
                     "another --format or --record");
    if (have > 0) {
      const auto taken = take(have);
      if (!taken || !items::lacks_line_end(format_, item_)) return taken;
      buffer_[filled_++] = std::byte(format_.line_end);
      item_ = items::text_at(buffer_.data() + at_, have + 1);
      return true;
    }
    looks_from_ = 0;
    if (opened_ == input_count(options_)) return false;
    if (Status opened = open_next(); !opened) return std::unexpected(opened.error());
  }
}

}  // namespace penstock::files
