#include "cli/trace/request_range.h"

#include <charconv>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "base/misuse.h"
#include "base/shell_word.h"

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

std::string absolute_under(const std::string& path) {
  std::error_code error;
  if (path.starts_with('/') || !std::filesystem::exists(path, error)) return path;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

Status check_part(uint64_t requests, const std::string& under, const std::string& range,
                  const std::string& file) {
  if (requests > 0 || (under.empty() && range.empty())) return {};
  if (!range.empty())
    return misuse("find a request of this part in " + file, "--requests " + range,
                  "penstock report " + typed_word(file) + ", which counts them");
  return misuse("find a request of files in " + file + " whose path begins so", "--under " + under,
                "penstock report " + typed_word(file) + ", which lists them; paths begin with /");
}

}  // namespace penstock::cli
