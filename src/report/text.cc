#include "report/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace penstock::report {
namespace {

std::string scaled(double value, double step, std::span<const char* const> units) {
  size_t unit = 0;
  while (value >= step * 0.9995 && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  // Whole numbers of the smallest unit; three digits of the others.
  if (unit == 0) return fmt::format("{:.0f} {}", value, units[0]);
  const int digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, digits, units[unit]);
}

}  // namespace

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

std::string grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, ",");
  return text;
}

std::string bytes_text(double bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  return scaled(bytes, 1024, units);
}

std::string rate_text(double bytes_per_second) {
  static constexpr const char* units[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  return scaled(bytes_per_second, 1000, units);
}

std::string duration_text(double seconds) {
  if (seconds >= 3600) {
    const auto whole = static_cast<uint64_t>(std::llround(seconds));
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  }
  if (seconds >= 599.5) {
    const auto whole = static_cast<uint64_t>(std::llround(seconds));
    return fmt::format("{}:{:02} min", whole / 60, whole % 60);
  }
  static constexpr const char* units[] = {"ns", "µs", "ms", "s"};
  return scaled(std::max(0.0, seconds) * 1e9, 1000, units);
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
