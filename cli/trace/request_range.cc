#include "cli/trace/request_range.h"

#include <charconv>
#include <optional>
#include <string>

namespace penstock::cli {

Result<RequestRange> parse_request_range(std::string_view text) {
  auto refuse = [&] {
    return failure(ErrorCode::invalid_argument, "read this as a part of the trace",
                   "--requests " + std::string(text), "FROM..TO, for example 1000000..1100000");
  };
  const size_t dots = text.find("..");
  if (dots == text.npos) return refuse();
  auto number = [](std::string_view digits, uint64_t otherwise) -> std::optional<uint64_t> {
    if (digits.empty()) return otherwise;
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc{} || end != digits.data() + digits.size()) return std::nullopt;
    return value;
  };
  const auto from = number(text.substr(0, dots), 0);
  const auto to = number(text.substr(dots + 2), ~uint64_t{0});
  if (!from || !to || *to <= *from) return refuse();
  return RequestRange{.first = *from, .count = *to - *from};
}

}  // namespace penstock::cli
