// Rows of CSV: lines, but that a line end in quotes ends none (rows.h).

#include <fmt/format.h>

#include <algorithm>

#include "items/items.h"
#include "items/rows.h"

namespace penstock::items {
namespace {

size_t csv_row_bytes(const Format& format, const std::byte* at, const std::byte* end,
                     std::string_view begun, bool quoted) {
  const std::optional<char> mark = format.counted_quote();
  return mark ? row_bytes_at(format.line_end, at, end, quoted, *mark)
              : row_bytes_at(*format.csv, format.line_end, at, end, begun);
}

std::optional<ItemFault> fault_of_csv_row(const Format& format, std::string_view row,
                                          bool& is_even) {
  size_t have = 0;
  auto fault = fault_of_row(row, *format.csv, format.line_end, &have);
  if (fault || is_even_row(row, format.line_end, have, format.row_fields)) return fault;
  is_even = false;
  if (format.rows_fit_header) fault = fault_of_count(have, format.row_fields);
  return fault;
}

std::string hint_of_csv(const Format& format, const ItemFault& fault) {
  const char between = format.csv->separator;
  const std::string separator = between == '\t' ? "-t $'\\t'" : fmt::format("-t '{}'", between);
  if (fault.is_count)
    return fmt::format("--csv --header{} with --key, for rows of any number of columns",
                       between == ',' ? std::string() : " " + separator);
  return fault.is_open ? "--quote none, if quotes are text"
                       : "--quote none, if quotes are text; --lenient, if only some are";
}

// Returns whether more data follows a carriage return outside of quotes.
bool has_lone_return(std::string_view data, std::optional<char> quote) {
  bool quoted = false;
  for (size_t i = 0; i + 1 < data.size(); ++i) {
    quoted ^= data[i] == quote;
    if (data[i] == '\r' && !quoted) return true;
  }
  return false;
}

Status check_csv(const Format& format, std::string_view data) {
  const char* const wide = format.csv->separator == '\0' ? nullptr : wide_encoding(data);
  if (wide != nullptr) {
    return failure(ErrorCode::unsupported, fmt::format("read rows of {}", wide), "",
                   hint_of_encoding(wide));
  }
  if (data.find(format.line_end) == data.npos && has_lone_return(data, format.csv->quote)) {
    return failure(ErrorCode::unsupported, "read rows that end with carriage returns alone", "",
                   "tr '\\r' '\\n' <FILE");
  }
  return {};
}

std::vector<std::string> csv_columns(const Format& format, std::string_view row) {
  return fields_of_row(row, *format.csv);
}

}  // namespace

namespace {

constexpr Framing framing_of(bool spans_lines) {
  return {.noun = "row",
          .has_line_ends = true,
          .spans_lines = spans_lines,
          .short_item_bytes = 2,
          .item_bytes = spans_lines ? csv_row_bytes : line_bytes_at,
          .first_item = first_line,
          .fault = fault_of_csv_row,
          .hint_of_fault = hint_of_csv,
          .check_text = check_csv,
          .columns = csv_columns,
          .order = order_of_fields};
}

}  // namespace

constexpr Framing csv_framing = framing_of(true);
constexpr Framing csv_line_framing = framing_of(false);

}  // namespace penstock::items
