#pragma once

// Where a key lies in its line.

#include <optional>
#include <string_view>

#include "items/text/key.h"

namespace penstock::items {

// What separates fields where no option says it, and what -b skips.
constexpr bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n';
}
inline size_t skip_blanks(std::string_view text, size_t at) {
  while (at < text.size() && is_blank(text[at])) ++at;
  return at;
}

// The key's part of the line; empty behind the end of a line that is too short. `separator`: of fields; none: each begins
// with the blanks in front of it.
std::string_view place_of(const TextKey& key, std::string_view line, std::optional<char> separator);

}  // namespace penstock::items
