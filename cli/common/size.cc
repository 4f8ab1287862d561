#include "cli/common/size.h"

#include <charconv>
#include <limits>
#include <string>

#include "penstock/units.h"

namespace penstock::cli {
namespace {

// Bytes per unit of a suffix; 0 when there is no such suffix.
uint64_t unit_of(char suffix) {
  switch (suffix) {
    case 'b':
      return 1;
    case 'k':
    case 'K':
      return KiB;
    case 'm':
    case 'M':
      return MiB;
    case 'g':
    case 'G':
      return GiB;
    case 't':
    case 'T':
      return TiB;
    default:
      return 0;
  }
}

std::unexpected<Error> not_a_size(std::string_view text) {
  return failure(ErrorCode::invalid_argument, "read this as a size", std::string(text),
                 "a number and a suffix: 512M, 4G, 50%");
}

}  // namespace

Result<uint64_t> parse_size(std::string_view text, uint64_t memory_bytes, uint64_t unit_bytes) {
  uint64_t number = 0;
  const char* end = text.data() + text.size();
  auto [rest, problem] = std::from_chars(text.data(), end, number);
  if (problem != std::errc{} || number == 0 || end - rest > 1) return not_a_size(text);
  if (rest != end && *rest == '%') {
    if (number > 100) return not_a_size(text);
    return static_cast<uint64_t>(static_cast<__uint128_t>(memory_bytes) * number / 100);
  }
  uint64_t unit = rest == end ? unit_bytes : unit_of(*rest);
  if (unit == 0 || number > std::numeric_limits<int64_t>::max() / unit) return not_a_size(text);
  return number * unit;
}

}  // namespace penstock::cli
