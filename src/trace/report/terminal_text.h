#pragma once

// The writer of the reports for a terminal.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "trace/report/text.h"

namespace penstock::report {

class Text {
 public:
  template <class... T>
  void line(fmt::format_string<T...> format, T&&... values) {
    std::string line = fmt::format(format, std::forward<T>(values)...);
    while (!line.empty() && line.back() == ' ') line.pop_back();
    text_ += line;
    text_ += '\n';
  }
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
};

// Returns `text` in ASCII unless the terminal has Unicode: replacements for the characters of
// Penstock's own texts, a question mark for any other.
inline std::string plain(std::string text, bool unicode) {
  if (unicode) return text;
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 3> instead = {
      {{"µ", "u"}, {"…", "..."}, {"·", ","}}};
  for (const auto& [from, to] : instead) {
    for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) {
      text.replace(at, from.size(), to);
    }
  }
  std::erase_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; });
  for (char& c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
  return text;
}

// Returns a name in at most `columns_max` columns, with its middle left out if it is longer.
// printable() does not count the mark of the gap, which takes one column, or three without UTF-8.
inline std::string fitted(std::string_view name, size_t columns_max, bool unicode) {
  std::string whole = plain(printable(name, name.npos), unicode);
  const auto columns = static_cast<size_t>(std::ranges::count_if(
      whole, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
  if (columns <= columns_max) return whole;
  return unicode ? printable(name, columns_max - 1)
                 : plain(printable(whole, columns_max - 3), false);
}

}  // namespace penstock::report
