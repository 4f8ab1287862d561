// Rows of CSV: lines, but that a line end in quotes ends none (rows.h).

#include <fmt/format.h>

#include "items/items.h"
#include "items/rows.h"

namespace penstock::items {
namespace {

size_t csv_row_bytes(const Format& format, const std::byte* at, const std::byte* end,
                     std::string_view, bool quoted) {
  return row_bytes_at(format.line_end, at, end, quoted);
}

std::optional<ItemFault> fault_of_csv_row(const Format& format, std::string_view row) {
  if (row.find(quote) == row.npos) return {};
  return fault_of_row(row, *format.csv, format.line_end);
}

std::string hint_of_csv(const Format& format) {
  const std::string separator =
      *format.csv == '\t' ? "-t $'\\t'" : fmt::format("-t '{}'", *format.csv);
  return fmt::format("{}{} -k1,1 in place of --csv and --key, if quotes mean nothing in it",
                     separator, format.header_lines > 0 ? " --header" : "");
}

// Returns whether more data follows a carriage return outside of quotes.
bool has_lone_return(std::string_view data) {
  bool quoted = false;
  for (size_t i = 0; i + 1 < data.size(); ++i) {
    quoted ^= data[i] == quote;
    if (data[i] == '\r' && !quoted) return true;
  }
  return false;
}

Status check_csv(const Format& format, std::string_view data) {
  const char* const wide = format.csv == '\0' ? nullptr : wide_encoding(data);
  if (wide != nullptr) {
    return failure(ErrorCode::unsupported, fmt::format("read rows of {}", wide), "",
                   hint_of_encoding(wide));
  }
  if (data.find(format.line_end) == data.npos && has_lone_return(data)) {
    return failure(ErrorCode::unsupported, "read rows that end with carriage returns alone", "",
                   "tr '\\r' '\\n' <FILE");
  }
  return {};
}

std::vector<std::string> csv_columns(const Format& format, std::string_view row) {
  return fields_of_row(row, *format.csv);
}

}  // namespace

constexpr Framing csv_framing = {.noun = "row",
                                 .has_line_ends = true,
                                 .quote = quote,
                                 .short_item_bytes = 2,
                                 .item_bytes = csv_row_bytes,
                                 .first_item = first_line,
                                 .fault = fault_of_csv_row,
                                 .hint_of_fault = hint_of_csv,
                                 .check_text = check_csv,
                                 .columns = csv_columns,
                                 .order = order_of_fields};

}  // namespace penstock::items
