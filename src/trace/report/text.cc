#include "trace/report/text.h"

#include <fmt/format.h>

#include <algorithm>

namespace penstock::report {
std::string html_escaped(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size() + text.size() / 8);
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string share_text(double part, double whole) {
  if (whole <= 0) return "-";
  const double percent = 100 * part / whole;
  if (percent > 0 && percent < 1) return "< 1 %";
  return fmt::format("{:.0f} %", percent);
}

std::string base64(std::span<const uint8_t> bytes) {
  static constexpr char digits[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t left = std::min<size_t>(3, bytes.size() - i);
    uint32_t three = static_cast<uint32_t>(bytes[i]) << 16;
    if (left > 1) three |= static_cast<uint32_t>(bytes[i + 1]) << 8;
    if (left > 2) three |= bytes[i + 2];
    text += digits[three >> 18];
    text += digits[three >> 12 & 63];
    text += left > 1 ? digits[three >> 6 & 63] : '=';
    text += left > 2 ? digits[three & 63] : '=';
  }
  return text;
}

void put_number(std::string& to, uint64_t number) {
  while (number >= 0x80) {
    to += static_cast<char>(number | 0x80);
    number >>= 7;
  }
  to += static_cast<char>(number);
}

void put_signed(std::string& to, int64_t number) {
  put_number(to, static_cast<uint64_t>(number) << 1 ^ static_cast<uint64_t>(number >> 63));
}

}  // namespace penstock::report
