// The head of a file: what stands in front of its items.

#include <fmt/format.h>

#include <algorithm>

#include "base/printable.h"
#include "base/shell_word.h"
#include "items/items.h"
#include "items/keys/text/text_order.h"

namespace penstock::items {

// In UTF-16 without a mark, every second byte of mostly Latin letters is NUL.
const char* wide_encoding(std::string_view data) {
  using namespace std::literals;
  if (data.starts_with("\xff\xfe\0\0"sv) || data.starts_with("\0\0\xfe\xff"sv)) return "UTF-32";
  if (data.starts_with("\xff\xfe") || data.starts_with("\xfe\xff")) return "UTF-16";
  constexpr size_t bytes_min = 4;
  constexpr size_t bytes_max = 256;
  const size_t bytes = std::min(data.size(), bytes_max) / 2 * 2;
  if (bytes < bytes_min) return nullptr;
  size_t nuls[2] = {};
  for (size_t i = 0; i < bytes; ++i) nuls[i % 2] += data[i] == '\0';
  for (const size_t place : {0, 1}) {
    if (nuls[1 - place] == 0 && 4 * nuls[place] >= 3 * bytes / 2)
      return place == 0 ? "UTF-16BE" : "UTF-16LE";
  }
  return nullptr;
}

std::string hint_of_encoding(const char* encoding) {
  return encoding == std::string_view("UTF-32") ? "iconv -f UTF-32 -t UTF-8 FILE"
                                                : fmt::format("--encoding {}", encoding);
}

namespace {

// The first line end of text that is checked is looked for in so many bytes.
constexpr size_t look_bytes = 64 << 10;

// Returns the lines of a header without their ends.
std::vector<std::string_view> lines_of(const Format& format, std::string_view header) {
  header.remove_prefix(mark_bytes(format, header));
  std::vector<std::string_view> lines;
  while (!header.empty()) {
    const auto* const begin = reinterpret_cast<const std::byte*>(header.data());
    std::string_view line = item_at(format, begin, begin + header.size());
    if (line.empty()) line = header;
    header.remove_prefix(line.size());
    lines.push_back(without_line_end(format, line));
  }
  return lines;
}

}  // namespace

Result<std::optional<size_t>> head_bytes(const Format& format, std::string_view data, bool is_all) {
  if (const auto check_text = format.framing().check_text; check_text != nullptr) {
    const bool has_line = data.find(format.line_end) != data.npos;
    if (!is_all && !has_line && data.size() < look_bytes) return std::nullopt;
    if (auto status = check_text(format, data); !status) return std::unexpected(status.error());
  }
  const auto* const begin = reinterpret_cast<const std::byte*>(data.data());
  const auto* const end = begin + data.size();
  const std::byte* at = begin + mark_bytes(format, data);
  for (uint32_t line = 0; line < format.header_lines; ++line) {
    const size_t bytes = item_bytes_at(format, at, end);
    if (bytes == 0) return std::nullopt;
    at += bytes;
  }
  return static_cast<size_t>(at - begin);
}

Result<Format> with_header(const Format& format, std::string_view header, const std::string& file) {
  header.remove_prefix(mark_bytes(format, header));
  Format made = format;
  made.row_fields = 0;  // a second line of the header may have any number
  std::string_view first;
  uint32_t lines = 0;
  for (std::string_view rest = header; !rest.empty() && lines < format.header_lines; ++lines) {
    const auto* const begin = reinterpret_cast<const std::byte*>(rest.data());
    std::string_view row = item_at(format, begin, begin + rest.size());
    if (row.empty()) row = rest;
    if (const auto fault = fault_of(made, row)) {
      if (row.starts_with("{\""))
        return failure(ErrorCode::corrupt, "find columns in what looks like JSON lines", file,
                       "jq -r '[.id, .name] | @csv' " + typed_word(file) +
                           " | penstock ... --csv --key 1, for example");
      auto error = bad_item(format, fmt::format("header row {}", lines + 1), *fault, {}, file);
      error.error().hint =
          "no --header, if its first line is none; --format lines, if it is no CSV";
      return error;
    }
    if (lines == 0) first = without_line_end(format, row);
    rest.remove_prefix(row.size());
  }
  const auto columns = format.framing().columns;
  if (columns == nullptr) return made;
  std::vector<std::string> names = columns(format, first);
  if (lines > 0) made.row_fields = names.size();
  if (format.columns == nullptr) return made;
  TextOptions options = *format.columns;
  options.header = std::move(names);
  auto order = format.framing().order(options);
  if (!order) return std::unexpected(order.error());
  made.keys = *order;
  return made;
}

std::optional<std::string> header_difference(const Format& format, std::string_view header,
                                             std::string_view first,
                                             const std::string& first_file) {
  const auto columns = format.framing().columns;
  const auto lines = lines_of(format, header);
  const auto first_lines = lines_of(format, first);
  auto told = [&](const char* what, size_t number, const std::string& here,
                  const std::string& there) {
    return fmt::format("{} {} is {}, and in {} {}", what, number, here, printable(first_file),
                       there);
  };
  auto shown = [](std::string_view text) { return "'" + printable(text) + "'"; };
  for (size_t i = 0; i < std::max(lines.size(), first_lines.size()); ++i) {
    const std::string_view line = i < lines.size() ? lines[i] : std::string_view();
    const std::string_view other = i < first_lines.size() ? first_lines[i] : std::string_view();
    if (columns == nullptr) {
      if (line != other) return told("line", i + 1, shown(line), shown(other));
      continue;
    }
    const auto names = columns(format, line);
    const auto other_names = columns(format, other);
    const auto [here, there] = std::ranges::mismatch(names, other_names);
    if (here == names.end() && there == other_names.end()) continue;
    return told("column", static_cast<size_t>(here - names.begin()) + 1,
                here == names.end() ? "missing" : shown(*here),
                there == other_names.end() ? "missing" : shown(*there));
  }
  return {};
}

}  // namespace penstock::items
