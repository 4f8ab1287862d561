#pragma once

// The place of a key in its line.

#include <optional>
#include <string_view>

#include "items/keys/text/key.h"

namespace penstock::items {

// Blanks separate fields by default, and are what -b skips.
constexpr bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n';
}
constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
inline size_t skip_blanks(std::string_view text, size_t at) {
  while (at < text.size() && is_blank(text[at])) ++at;
  return at;
}

// Returns the key's part of the line; empty behind the end of a line that is too short. Without a
// `separator`, each field begins with the blanks in front of it.
std::string_view place_of(const TextKey& key, std::string_view line, std::optional<char> separator);

}  // namespace penstock::items
