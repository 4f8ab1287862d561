#pragma once

// The writer of the reports for a terminal.

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/wrapped.h"
#include "trace/report/advice.h"
#include "trace/report/terminal.h"
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
  void add(std::string_view lines) { text_ += lines; }
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
  if (columns_of(whole) <= columns_max) return whole;
  return unicode ? printable(name, columns_max - 1)
                 : plain(printable(whole, columns_max - 3), false);
}

// Adds sentences, broken into lines. The first line begins with `first`, and the others are indented
// to match.
inline void add_sentences(Text& text, std::string_view first, const std::string& sentences,
                          const TerminalOptions& options) {
  text.line("{}{}", first,
            wrapped(plain(printable(sentences, 2000), options.unicode), first.size(), first.size(),
                    options.width));
}

// Adds a list of advice under its heading; nothing if it is empty.
inline void add_advice(Text& text, const std::vector<Advice>& all, const TerminalOptions& options) {
  if (all.empty()) return;
  text.line("What to do");
  for (const Advice& advice : all) {
    add_sentences(text, "  - ", advice.what + (advice.how.empty() ? "" : ": " + advice.how),
                  options);
    add_sentences(text, "    ", advice.why, options);
  }
  text.line("");
}

}  // namespace penstock::report
