#include "items/rows.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "items/keys/codec.h"

namespace penstock::items {
namespace {

size_t find(std::string_view text, char what, size_t from) {
  return std::min(text.find(what, from), text.size());
}

bool is_quoted(std::string_view row, size_t at) {
  return at < row.size() && row[at] == quote;
}

// Returns the field that begins with a quote at `at`.
FieldPlace quoted_field(std::string_view row, size_t at) {
  FieldPlace field{.begin = at, .quotes = FieldPlace::Quotes::around};
  for (++at;; ++at) {
    at = find(row, quote, at) + 1;
    field.end = at;
    if (!is_quoted(row, at)) return field;
    field.quotes = FieldPlace::Quotes::doubled;
  }
}

// A search for the next separator, line end or quote, eight bytes at a time because fields are
// short.
class Marks {
 public:
  Marks(char separator, char line_end)
      : separators_(ones * static_cast<unsigned char>(separator)),
        line_ends_(ones * static_cast<unsigned char>(line_end)) {}

  size_t find(std::string_view text, size_t at) const {
    for (; text.size() - at >= sizeof(uint64_t); at += sizeof(uint64_t)) {
      const auto word = load<uint64_t>(text.data() + at);
      // The lowest set bit is right; bits above it may come from a borrow.
      const uint64_t found =
          (zeros(word ^ separators_) | zeros(word ^ line_ends_) | zeros(word ^ quotes_)) & highs;
      if (found != 0) return at + static_cast<size_t>(std::countr_zero(found)) / 8;
    }
    auto is_mark = [&](char c) {
      return c == static_cast<char>(separators_) || c == static_cast<char>(line_ends_) ||
             c == quote;
    };
    while (at < text.size() && !is_mark(text[at])) ++at;
    return at;
  }

 private:
  static constexpr uint64_t ones = 0x0101010101010101;
  static constexpr uint64_t highs = ones << 7;
  static constexpr uint64_t quotes_ = ones * quote;
  // Sets the high bit of the lowest byte that is zero, and perhaps bits above it.
  static uint64_t zeros(uint64_t word) { return (word - ones) & ~word; }

  uint64_t separators_;
  uint64_t line_ends_;
};

// Walks over the row at the beginning of `text`, and calls use(place) for each field. Returns the
// bytes of the row, or 0 if it has a fault or goes on behind the text. If `is_last`, the row may
// end with the text.
template <class Use>
size_t walk_row(std::string_view text, char separator, char line_end, bool is_last,
                std::optional<ItemFault>& fault, Use use) {
  const Marks marks(separator, line_end);
  for (size_t at = 0;;) {
    FieldPlace field;
    size_t end = 0;  // end of the field with a carriage return behind it
    if (is_quoted(text, at)) {
      field = quoted_field(text, at);
      end = field.end;
      if (end > text.size()) {
        if (is_last) fault = {at, "a quote that nothing closes", true};
        return 0;
      }
      if (end < text.size() && text[end] == '\r' &&
          (end + 1 == text.size() || text[end + 1] == line_end))
        ++end;
      if (end < text.size() && text[end] != separator && text[end] != line_end) {
        fault = {end, "text behind the quote that closes a field"};
        return 0;
      }
    } else {
      end = marks.find(text, at);
      field = {.begin = at, .end = end};
      if (is_quoted(text, end)) {
        fault = {end, "a quote inside of a field that has none in front"};
        return 0;
      }
    }
    if (end == text.size() && !is_last) return 0;
    const bool is_end = end == text.size() || text[end] == line_end;
    if (is_end && field.end == end && end > at && text[end - 1] == '\r') --field.end;
    use(field);
    if (is_end) return std::min(end + 1, text.size());
    at = end + 1;
  }
}

// Returns the field at `at`. The next one begins behind its end and the separator.
FieldPlace field_at(std::string_view row, char separator, size_t at) {
  return is_quoted(row, at) ? quoted_field(row, at)
                            : FieldPlace{.begin = at, .end = find(row, separator, at)};
}

}  // namespace

std::string_view without_return(std::string_view row) {
  if (row.ends_with('\r')) row.remove_suffix(1);
  return row;
}

std::optional<ItemFault> fault_of_row(std::string_view row, char separator, char line_end) {
  std::optional<ItemFault> fault;
  walk_row(row, separator, line_end, true, fault, [](const FieldPlace&) {});
  return fault;
}

std::string_view FieldPlace::unquoted(std::string_view row, std::string& room) const {
  std::string_view text = row.substr(begin + 1, end - begin - 2);
  if (quotes == Quotes::around) return text;
  room.clear();
  while (!text.empty()) {
    const size_t pair = find(text, quote, 0);
    room.append(text.substr(0, std::min(pair + 1, text.size())));
    text.remove_prefix(std::min(pair + 2, text.size()));
  }
  return room;
}

std::string_view field_of_row(std::string_view row, char separator, size_t column,
                              std::string& room) {
  row = without_return(row);
  for (size_t at = 0; at <= row.size(); --column) {
    const FieldPlace field = field_at(row, separator, at);
    if (column == 0) return field.value(row, room);
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
    const FieldPlace field = field_at(row, separator, at);
    fields.emplace_back(field.value(row, room));
    at = field.end + 1;
  }
  return fields;
}

RowIndex::RowIndex(char separator, char line_end, std::vector<size_t> columns)
    : separator_(separator), line_end_(line_end), columns_(std::move(columns)) {}

std::optional<RowIndex> RowIndex::of(const Format& format, std::vector<size_t> columns) {
  if (!format.csv) return {};
  return RowIndex(*format.csv, format.line_end, std::move(columns));
}

size_t RowIndex::add(const std::byte* at, const std::byte* end, bool is_last) {
  const std::string_view text(reinterpret_cast<const char*>(at), static_cast<size_t>(end - at));
  const size_t first = places_.size();
  places_.resize(first + columns_.size());
  FieldPlace* place = places_.data() + first;
  auto wanted = columns_.begin();
  size_t column = 0;
  const size_t bytes =
      walk_row(text, separator_, line_end_, is_last, fault_, [&](const FieldPlace& field) {
        if (wanted == columns_.end() || column++ != *wanted) return;
        *place++ = field;
        ++wanted;
      });
  if (bytes == 0) places_.resize(first);
  return bytes;
}

}  // namespace penstock::items
