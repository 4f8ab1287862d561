#pragma once

// For commands that a message or a script hands to a shell.

#include <string>
#include <string_view>

namespace penstock {

// One word for a POSIX shell: in single quotes, which nothing inside of them ends but a single
// quote.
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
