#include "base/amounts.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <span>

namespace penstock {
namespace {

// Formats a number with a decimal point, whatever the locale is.
std::string fixed(double value, int digits) {
  std::array<char, 400> text;  // the largest double has 309 digits
  const auto end =
      std::to_chars(text.begin(), text.end(), value, std::chars_format::fixed, digits).ptr;
  return {text.begin(), end};
}

std::string scaled(double value, double step, std::span<const char* const> units) {
  size_t unit = 0;
  while (value >= step * 0.9995 && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  // Shows whole numbers of the smallest unit, and three digits of the others.
  const int digits = unit == 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return fixed(value, digits) + " " + units[unit];
}

std::string two_digits(uint64_t number) {
  return (number < 10 ? ":0" : ":") + std::to_string(number);
}

}  // namespace

std::string grouped(uint64_t number) {
  std::string text = std::to_string(number);
  for (size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, ",");
  return text;
}

std::string counted(uint64_t number, const std::string& one, const std::string& many) {
  return grouped(number) + " " + (number == 1 ? one : many.empty() ? one + "s" : many);
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
  if (seconds >= 599.5) {
    const auto whole = static_cast<uint64_t>(std::llround(seconds));
    const std::string last = two_digits(whole % 60);
    if (seconds < 3600) return std::to_string(whole / 60) + last + " min";
    return std::to_string(whole / 3600) + two_digits(whole / 60 % 60) + last;
  }
  static constexpr const char* units[] = {"ns", "µs", "ms", "s"};
  return scaled(std::max(0.0, seconds) * 1e9, 1000, units);
}

}  // namespace penstock
