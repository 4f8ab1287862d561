#pragma once

// The fields of a line as they are written: what is copied from one line to another.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "items/format.h"

namespace penstock::items {

struct FieldStyle {
  std::optional<char> separator = {};  // none: blanks, of which several are one
  bool csv = false;                    // the line is a row (rows.h)
};

// Of lines or rows of this format. `separator`: of lines; rows have their own.
FieldStyle style_of(const Format& format, std::optional<char> separator);

// `line` comes without its end, and of a row without a carriage return there. Fields are parts of it,
// those of a row with their quotes. An empty line has none; neither has one of nothing
// but blanks that separate.
void split_fields(std::string_view line, const FieldStyle& style,
                  std::vector<std::string_view>& fields);

// The text as a field of a row: in quotes, if it needs them.
std::string row_field(std::string_view text, char separator);

}  // namespace penstock::items
