#pragma once

// Words of commands that a message or a script hands to a shell.

#include <string>
#include <string_view>

namespace penstock {

// Returns one word for a POSIX shell, in single quotes, which only another single quote ends.
inline std::string shell_word(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
    } else {
      result += c;
    }
  }
  return result + "'";
}

}  // namespace penstock
