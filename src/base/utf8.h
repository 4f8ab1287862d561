#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace penstock {

// A character of UTF-8. Names of files are any bytes: `bytes` is 0 if no character begins there.
struct Utf8Character {
  size_t bytes = 0;
  uint32_t code = 0;
};

// Returns the first character of `text` (RFC 3629: no overlong form, no half of a UTF-16 pair,
// nothing above U+10FFFF). REQUIRES: the text is not empty.
inline Utf8Character first_character(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {1, lead};
  const size_t bytes = lead >= 0xf0 && lead < 0xf8   ? 4
                       : lead >= 0xe0 && lead < 0xf0 ? 3
                       : lead >= 0xc0 && lead < 0xe0 ? 2
                                                     : 0;
  if (bytes == 0 || text.size() < bytes) return {};
  uint32_t code = lead & (0x7fu >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr std::array<uint32_t, 5> least = {0, 0, 0x80, 0x800, 0x10000};
  if (code < least[bytes] || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff) return {};
  return {bytes, code};
}

}  // namespace penstock
