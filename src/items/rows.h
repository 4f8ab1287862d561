#pragma once

// Rows of CSV, as RFC 4180 has them: fields with a separator between them. A field in quotes may
// hold separators, line ends and quotes, each of these written twice.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "items/format.h"

namespace penstock::items {

inline constexpr char quote = '"';

// The bytes of the row that begins at `at`, its end included; 0 if it does not end before `end`.
// `quoted`: what is there is the rest of one, and in quotes.
size_t row_bytes_at(char line_end, const std::byte* at, const std::byte* end, bool quoted = false);

// The first place that breaks the rules in a row with or without its end; nothing where none does.
std::optional<ItemFault> fault_of_row(std::string_view row, char separator, char line_end);

// The place of a field in its row, quotes included.
struct FieldPlace {
  enum class Quotes : uint8_t { none, around, doubled };  // doubled: around it, and others inside
  size_t begin = 0;
  size_t end = 0;  // past the end of the row where nothing closes its quotes
  Quotes quotes = Quotes::none;

  // A part of the row, or made in `room`.
  std::string_view value(std::string_view row, std::string& room) const {
    return quotes == Quotes::none ? row.substr(begin, end - begin) : unquoted(row, room);
  }
  // REQUIRES: it is quoted.
  std::string_view unquoted(std::string_view row, std::string& room) const;
};

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

// Rows one behind the other. One walk over a row finds its end, its first fault, and the places of the wanted fields.
class RowIndex {
 public:
  // `columns`: of the wanted fields, from 0 on, ascending.
  RowIndex(char separator, char line_end, std::vector<size_t> columns);
  // Nothing if items of this format are no rows of CSV.
  static std::optional<RowIndex> of(const Format& format, std::vector<size_t> columns);

  void clear() { places_.clear(); }
  // Adds the row that begins at `at`, and returns its bytes. 0: it does not end before `end`, or has a fault.
  // `is_last`: it may lack its end.
  size_t add(const std::byte* at, const std::byte* end, bool is_last);
  // The fault of the row that was not added.
  const std::optional<ItemFault>& fault() const { return fault_; }
  // The value of wanted field `i` of row `number`: a part of the row, or made in `room`. Empty where the row has no such field.
  std::string_view field(size_t number, size_t i, std::string_view row, std::string& room) const {
    return places_[number * columns_.size() + i].value(row, room);
  }

 private:
  char separator_;
  char line_end_;
  std::vector<size_t> columns_;
  std::vector<FieldPlace> places_;  // of each row as many as there are columns
  std::optional<ItemFault> fault_;
};

}  // namespace penstock::items
