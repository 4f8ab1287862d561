#include "base/wrapped.h"

#include <algorithm>

namespace penstock {

size_t columns_of(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string wrapped(std::string_view text, size_t indent, size_t begin, size_t columns) {
  std::string result;
  size_t column = begin;
  for (bool first = true; !text.empty(); first = false) {
    const std::string_view word = text.substr(0, text.find(' '));
    const size_t wide = columns_of(word);
    if (!first && column + 1 + wide > columns) {
      result += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!first) {
      result += ' ';
      ++column;
    }
    result += word;
    column += wide;
    text.remove_prefix(std::min(word.size() + 1, text.size()));
  }
  return result;
}

}  // namespace penstock
