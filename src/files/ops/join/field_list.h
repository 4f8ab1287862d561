#pragma once

// Lists of output fields: "0,1.2,2.price" (JoinLinesOptions::list).

#include <cstddef>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base.h"

namespace penstock::files {

// A word of a list. "0", the key, has no side.
struct ListedField {
  std::optional<size_t> side = {};  // 0-based
  std::string name = {};            // a column's name or number, or a field's number
};
// Returns nullopt if the text is no list of fields of so many sides.
std::optional<std::vector<ListedField>> fields_of_list(std::string_view list, size_t sides);

// True if a word is a list of fields, or "auto".
bool is_field_list(std::string_view word, size_t sides);
// True if a word looks like an attempt at one: it begins with a digit and a point, contains a
// comma, or is a number, and is not a path that begins with / or . such as ./1.csv.
bool looks_like_field_list(std::string_view word);
std::unexpected<Error> no_field_list(const std::string& word);

}  // namespace penstock::files
