#include "cli/common/size.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include "base/misuse.h"

namespace penstock::cli {
namespace {

// Bytes per unit of a suffix: 1024 for "K" and "KiB", 1000 for "kB" and "KB", and so on; 1 for "b"
// and "B"; 0 if there is no such suffix.
uint64_t unit_of(std::string_view suffix) {
  if (suffix == "b" || suffix == "B") return 1;
  constexpr std::string_view letters = "kmgt";
  const size_t power = letters.find(static_cast<char>(suffix.front() | 0x20));
  const std::string_view rest = suffix.substr(1);
  if (power == letters.npos || (!rest.empty() && rest != "B" && rest != "iB")) return 0;
  uint64_t unit = 1;
  for (size_t i = 0; i <= power; ++i) unit *= rest == "B" ? 1000 : 1024;
  return unit;
}

}  // namespace

Result<uint64_t> parse_size(const char* option, std::string_view text, uint64_t memory_bytes,
                            uint64_t unit_bytes) {
  const auto no_size = misuse("read this as a size", std::string(option) + " " + std::string(text),
                              "a number and a suffix: 512M, 1.5G, 50%");
  const char* const end = text.data() + text.size();
  double number = 0;
  const auto [rest, problem] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (problem != std::errc{} || number < 0) return no_size;
  const auto refuse = [&](const char* hint) {
    return misuse("use this size", std::string(option) + " " + std::string(text), hint);
  };
  if (number == 0) return refuse("more than 0, as in 512M");
  const std::string_view suffix(rest, end);
  double bytes = 0;
  if (suffix == "%") {
    if (number > 100) return refuse("at most 100%");
    bytes = static_cast<double>(memory_bytes) * number / 100;
  } else {
    const uint64_t unit = suffix.empty() ? unit_bytes : unit_of(suffix);
    // Fractions of a byte are refused.
    if (unit <= 1 && number != std::floor(number)) return no_size;
    bytes = number * static_cast<double>(unit);
  }
  if (!(bytes >= 1) || bytes >= static_cast<double>(std::numeric_limits<int64_t>::max()))
    return no_size;
  return static_cast<uint64_t>(bytes);
}

}  // namespace penstock::cli
