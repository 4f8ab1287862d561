#include "base/printable.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "base/utf8.h"

namespace penstock {
namespace {

// Returns whether a character would act on the text around it instead of being seen.
bool acts(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0xad || code == 0x61c ||
         (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
         (code >= 0x2060 && code <= 0x206f) || code == 0xfeff ||
         (code >= 0xfff9 && code <= 0xfffb) || (code & 0xfffe) == 0xfffe || code >= 0xe0000;
}

std::string escaped(const char* form, uint32_t code) {
  std::array<char, 16> text;
  std::snprintf(text.data(), text.size(), form, code);
  return text.data();
}

}  // namespace

std::string printable(std::string_view name, size_t characters_max) {
  // The pieces to show: characters, and escapes that stand for one.
  std::vector<std::string> pieces;
  pieces.reserve(std::min(name.size(), size_t{4096}));
  while (!name.empty()) {
    const Utf8Character character = first_character(name);
    if (character.bytes == 0) {
      pieces.push_back(escaped("\\x%02x", static_cast<uint8_t>(name[0])));
      name.remove_prefix(1);
      continue;
    }
    if (!acts(character.code)) {
      pieces.emplace_back(name.substr(0, character.bytes));
    } else if (character.code < 0x100) {
      pieces.push_back(escaped("\\x%02x", character.code));
    } else {
      pieces.push_back(escaped("\\u{%x}", character.code));
    }
    name.remove_prefix(character.bytes);
  }
  auto width = [](const std::string& piece) { return piece[0] == '\\' ? piece.size() : 1; };
  size_t begin = pieces.size(), end = pieces.size(), all = 0;
  for (const std::string& piece : pieces) all += width(piece);
  if (all > characters_max) {
    // The end of a path says more than its beginning.
    size_t left = characters_max / 3;
    for (begin = 0; width(pieces[begin]) <= left; ++begin) left -= width(pieces[begin]);
    left = characters_max - characters_max / 3;
    for (; width(pieces[end - 1]) <= left; --end) left -= width(pieces[end - 1]);
  }
  std::string shown;
  for (size_t i = 0; i < begin; ++i) shown += pieces[i];
  if (begin < end) shown += "…";
  for (size_t i = end; i < pieces.size(); ++i) shown += pieces[i];
  return shown;
}

}  // namespace penstock
