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

}  // namespace

std::string_view without_return(std::string_view row) {
  if (row.ends_with('\r')) row.remove_suffix(1);
  return row;
}

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

namespace {

// Where a field stands in its row, quotes included.
struct Place {
  size_t begin = 0;
  size_t end = 0;  // past the end of the row where nothing closes its quotes
  bool is_quoted = false;
  bool has_quotes = false;  // in quotes, and each written twice
};

// The field that begins at `at`. The next one begins behind its end and the separator.
Place field_at(std::string_view row, char separator, size_t at) {
  Place field{.begin = at, .is_quoted = at < row.size() && row[at] == quote};
  field.end = field.is_quoted ? end_of_quoted(row, at, field.has_quotes) : find(row, separator, at);
  return field;
}

// A part of the row, or made in `room`.
std::string_view value_of(std::string_view row, const Place& field, std::string& room) {
  if (!field.is_quoted) return row.substr(field.begin, field.end - field.begin);
  std::string_view text = row.substr(field.begin + 1, field.end - field.begin - 2);
  if (!field.has_quotes) return text;
  room.clear();
  while (!text.empty()) {
    const size_t pair = find(text, quote, 0);
    room.append(text.substr(0, std::min(pair + 1, text.size())));
    text.remove_prefix(std::min(pair + 2, text.size()));
  }
  return room;
}

}  // namespace

std::optional<RowFault> fault_of_row(std::string_view row, char separator, char line_end) {
  if (std::memchr(row.data(), quote, row.size()) == nullptr) return {};
  if (row.ends_with(line_end)) row.remove_suffix(1);
  row = without_return(row);
  for (size_t at = 0; at <= row.size();) {
    const Place field = field_at(row, separator, at);
    if (field.is_quoted) {
      if (field.end > row.size()) return RowFault{at, "a quote that nothing closes", true};
      if (field.end < row.size() && row[field.end] != separator)
        return RowFault{field.end, "text behind the quote that closes a field"};
    } else if (const size_t stray = find(row.substr(0, field.end), quote, at); stray < field.end) {
      return RowFault{stray, "a quote inside of a field that has none in front"};
    }
    at = field.end + 1;
  }
  return {};
}

std::string_view field_of_row(std::string_view row, char separator, size_t column,
                              std::string& room) {
  row = without_return(row);
  for (size_t at = 0; at <= row.size(); --column) {
    const Place field = field_at(row, separator, at);
    if (column == 0) return value_of(row, field, room);
    at = field.end + 1;
  }
  return {};
}

size_t end_of_field(std::string_view row, char separator, size_t at) {
  return std::min(field_at(row, separator, at).end, row.size());
}

std::vector<std::string> fields_of_row(std::string_view row, char separator) {
  std::vector<std::string> fields;
  std::string room;
  row = without_return(row);
  for (size_t at = 0; at <= row.size();) {
    const Place field = field_at(row, separator, at);
    fields.emplace_back(value_of(row, field, room));
    at = field.end + 1;
  }
  return fields;
}

}  // namespace penstock::record
