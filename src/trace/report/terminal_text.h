#pragma once

// What the reports for a terminal are written with.

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace penstock::trace::report {

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

// What is in words of ours beyond ASCII, for terminals without it.
inline std::string plain(std::string text, bool unicode) {
  if (unicode) return text;
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 3> instead = {
      {{"µ", "u"}, {"…", "..."}, {"·", ","}}};
  for (const auto& [from, to] : instead) {
    for (size_t at = 0; (at = text.find(from, at)) != text.npos; at += to.size()) {
      text.replace(at, from.size(), to);
    }
  }
  for (char& c : text) {
    if (static_cast<unsigned char>(c) >= 0x80) c = '?';
  }
  return text;
}

}  // namespace penstock::trace::report
