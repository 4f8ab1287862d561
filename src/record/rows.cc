#include "record/rows.h"

#include <algorithm>
#include <cstring>

namespace penstock::record {
namespace {

size_t find(std::string_view text, char what, size_t from) {
  return std::min(text.find(what, from), text.size());
}

// Behind the quote that ends the field which begins with one at `at`; past the end of the row if
// none does. `has_quotes`: some are written twice.
size_t end_of_quoted(std::string_view row, size_t at, bool& has_quotes) {
  for (++at;;) {
    at = find(row, quote, at) + 1;
    if (at > row.size()) return at;
    if (at == row.size() || row[at] != quote) return at;
    has_quotes = true;
    ++at;
  }
}

// The row without a carriage return at its end.
std::string_view without_return(std::string_view row) {
  if (row.ends_with('\r')) row.remove_suffix(1);
  return row;
}

}  // namespace

// A line end is the row's if the quotes in front of it are even in number: so quotes are counted,
// and fields are not looked at.
size_t row_bytes_at(char line_end, const std::byte* at, const std::byte* end, bool quoted) {
  for (const std::byte* from = at; from < end;) {
    const void* found = std::memchr(from, line_end, static_cast<size_t>(end - from));
    if (found == nullptr) return 0;
    const auto* const stop = static_cast<const std::byte*>(found);
    quoted ^= (std::count(from, stop, std::byte(quote)) & 1) != 0;
    from = stop + 1;
    if (!quoted) return static_cast<size_t>(from - at);
  }
  return 0;
}

std::optional<RowFault> fault_of_row(std::string_view row, char separator, char line_end) {
  if (std::memchr(row.data(), quote, row.size()) == nullptr) return {};
  if (row.ends_with(line_end)) row.remove_suffix(1);
  row = without_return(row);
  for (size_t at = 0; at <= row.size();) {
    if (at == row.size() || row[at] != quote) {
      const size_t end = find(row, separator, at);
      const size_t stray = find(row.substr(0, end), quote, at);
      if (stray < end) return RowFault{stray, "a quote inside of a field that has none in front"};
      at = end + 1;
      continue;
    }
    bool has_quotes = false;
    const size_t end = end_of_quoted(row, at, has_quotes);
    if (end > row.size()) return RowFault{at, "a quote that nothing closes"};
    if (end < row.size() && row[end] != separator)
      return RowFault{end, "text behind the quote that closes a field"};
    at = end + 1;
  }
  return {};
}

namespace {

// What stands between the quotes, of which each is written twice there.
void append_unquoted(std::string_view text, std::string& to) {
  while (!text.empty()) {
    const size_t pair = find(text, quote, 0);
    to.append(text.substr(0, std::min(pair + 1, text.size())));
    text.remove_prefix(std::min(pair + 2, text.size()));
  }
}

}  // namespace

std::string_view field_of_row(std::string_view row, char separator, size_t column,
                              std::string& room) {
  row = without_return(row);
  for (size_t at = 0; at <= row.size(); --column) {
    const bool is_quoted = at < row.size() && row[at] == quote;
    bool has_quotes = false;
    const size_t end = is_quoted ? std::min(end_of_quoted(row, at, has_quotes), row.size())
                                 : find(row, separator, at);
    if (column > 0) {
      at = end + 1;
      continue;
    }
    if (!is_quoted) return row.substr(at, end - at);
    const std::string_view text = row.substr(at + 1, end - at - 2);
    if (!has_quotes) return text;
    room.clear();
    append_unquoted(text, room);
    return room;
  }
  return {};
}

std::vector<std::string> fields_of_row(std::string_view row, char separator) {
  std::vector<std::string> fields;
  row = without_return(row);
  for (size_t at = 0; at <= row.size();) {
    const bool is_quoted = at < row.size() && row[at] == quote;
    bool has_quotes = false;
    const size_t end = is_quoted ? std::min(end_of_quoted(row, at, has_quotes), row.size())
                                 : find(row, separator, at);
    std::string& field = fields.emplace_back();
    if (is_quoted) {
      append_unquoted(row.substr(at + 1, end - at - 2), field);
    } else {
      field = row.substr(at, end - at);
    }
    at = end + 1;
  }
  return fields;
}

}  // namespace penstock::record
