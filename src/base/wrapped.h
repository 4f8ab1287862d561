#pragma once

// Lines of text that fit a terminal.

#include <cstddef>
#include <string>
#include <string_view>

namespace penstock {

inline constexpr size_t columns_max = 80;

// Returns the columns that text takes on a terminal: its characters of UTF-8.
size_t columns_of(std::string_view text);

// Wraps `text` between words into lines of at most `columns` characters, indented by `indent`
// blanks; the first line is not indented, and begins in column `begin`. A longer word stays whole.
std::string wrapped(std::string_view text, size_t indent, size_t begin,
                    size_t columns = columns_max);
inline std::string wrapped(std::string_view text, size_t indent) {
  return wrapped(text, indent, indent);
}

}  // namespace penstock
