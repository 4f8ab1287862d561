#pragma once

// Words of commands that a message or a script hands to a shell.

#include <algorithm>
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

// Returns the word as one types it: in quotes only if the shell would change it without them.
inline std::string typed_word(std::string_view text) {
  constexpr std::string_view plain =
      "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_./:,=@%+-";
  const auto is_plain = [&](char c) {
    return static_cast<signed char>(c) < 0 || plain.contains(c);
  };
  return !text.empty() && std::ranges::all_of(text, is_plain) ? std::string(text)
                                                              : shell_word(text);
}

}  // namespace penstock
