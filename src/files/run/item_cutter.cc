#include "files/run/item_cutter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "files/run/options.h"

namespace penstock::files {
namespace {

constexpr size_t piece_bytes = 256 * KiB;
// The search for the end of a shorter item begins anew with each piece.
constexpr size_t short_bytes = 64 * KiB;

}  // namespace

uint64_t cut_bytes_max(const penstock::FilesOptions& options, size_t at_once) {
  constexpr uint64_t enough = 384 * KiB;
  const bool changes_columns = options.columns != ColumnRule::equal || !options.select.empty();
  const size_t part =
      leaves_rows_out(options) && changes_columns ? 4 : 1;  // two filters, and copies
  return std::max(enough, options.memory_bytes / 16 / (std::max<size_t>(1, at_once) * part));
}

void ItemCutter::begin(std::string name, uint64_t offset, items::Place place) {
  name_ = std::move(name);
  offset_ = offset;
  place_ = place;
  begin_ = at_ = end_ = looks_from_ = 0;
  has_ended_ = false;
}

Result<std::span<std::byte>> ItemCutter::room() {
  if (is_full()) return too_long();
  const size_t most = item_bytes_max_ + 1;
  if (buffer_.begin() == nullptr) {
    auto buffer = os::zeroed(most + 1, "get memory for an item", name_, "a smaller -S");
    if (!buffer) return std::unexpected(buffer.error());
    buffer_ = std::move(*buffer);
  }
  end_ -= at_;
  if (at_ > 0) std::memmove(buffer_.begin(), buffer_.begin() + at_, end_);
  begin_ = at_ = 0;
  const size_t bytes = std::min(piece_bytes, most - end_);
  touched_ = std::max(touched_, end_ + bytes + 1);
  charge_.set(touched_);
  return std::span(buffer_.begin() + end_, bytes);
}

void ItemCutter::defer() {
  const size_t have = end_ - at_;
  looks_from_ = have < short_bytes ? have + 1 : 2 * have;
}

void ItemCutter::take(size_t bytes, uint64_t items) {
  place_.line +=
      items == 1
          ? items::lines_of_item(format_, text().substr(0, bytes))
          : static_cast<uint64_t>(std::ranges::count(text().substr(0, bytes), format_.line_end));
  place_.row += items;
  offset_ += bytes;
  at_ += bytes;
  looks_from_ = 0;
}

std::unexpected<Error> ItemCutter::too_long() const {
  auto error = items::too_long(format_, item_bytes_max_, name_, place_.text(format_));
  const auto quote = format_.counted_quote();
  if (quote && text().contains(*quote))
    error.error().hint = "--quote none or --lenient, if quotes are text; or " + error.error().hint;
  return error;
}

}  // namespace penstock::files
