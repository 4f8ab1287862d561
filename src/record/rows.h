#pragma once

// Rows of CSV, as RFC 4180 has them: fields with a separator between them. A field in quotes may
// hold separators, line ends and quotes, each of these written twice.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace penstock::record {

inline constexpr char quote = '"';

// The bytes of the row that begins at `at`, its end included; 0 if it does not end before `end`.
// `quoted`: what is there is the rest of one, and in quotes.
size_t row_bytes_at(char line_end, const std::byte* at, const std::byte* end, bool quoted = false);

// What is wrong with a row, which comes with or without its end.
struct RowFault {
  size_t at = 0;  // byte of the row
  const char* what = "";
  bool is_open = false;  // of a row that has not ended yet: what follows may mend it
};
// The first place that breaks the rules; nothing where none does.
std::optional<RowFault> fault_of_row(std::string_view row, char separator, char line_end);

// The value of field `column` (from 0 on) of a row without its end: a part of it, or made in
// `room`. Empty where the row has not so many. A carriage return at the end is no part of it. Of a row
// with a fault it is any text.
std::string_view field_of_row(std::string_view row, char separator, size_t column,
                              std::string& room);
std::vector<std::string> fields_of_row(std::string_view row, char separator);
// Where the field that begins at `at` ends, its quotes included: at a separator, or at the row's end.
size_t end_of_field(std::string_view row, char separator, size_t at);
// The row without the carriage return that may be its last byte.
std::string_view without_return(std::string_view row);

}  // namespace penstock::record
