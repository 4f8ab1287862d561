#pragma once

// Fields of a line as they are written, for copies from one line to another.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "items/format.h"

namespace penstock::items {

struct FieldStyle {
  std::optional<char> separator = {};  // nullopt: blanks, several of which count as one
  std::optional<Dialect> csv = {};     // the line is a row (rows.h)
};

// Returns the style of lines with this `separator`, or of rows of CSV, which have their own.
FieldStyle style_of(const Format& format, std::optional<char> separator);

// Stores the fields as parts of `line`, which lacks its end (of a row, the carriage return too).
// Fields of a row keep their quotes. An empty line has no fields, nor has a line of nothing but
// separating blanks.
void split_fields(std::string_view line, const FieldStyle& style,
                  std::vector<std::string_view>& fields);

// Returns the text as a field of a row, in quotes or with escapes if it needs them.
std::string row_field(std::string_view text, const Dialect& dialect);
// Returns whether a field of a row as it is written is empty, with quotes or without.
bool is_empty_field(std::string_view field, const Dialect& dialect);

}  // namespace penstock::items
