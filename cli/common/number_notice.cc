#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <ranges>
#include <string_view>
#include <utility>

#include "cli/common/input_notices.h"
#include "files/run/odd_items.h"
#include "interfaces/api/item_format.h"
#include "io/names.h"
#include "items/items.h"

namespace penstock::cli {
namespace {

// Finds the first odd value, and its row, 1-based with the header.
std::optional<std::pair<items::OddValue, uint64_t>> find_value(const items::Format& format,
                                                               std::string_view text) {
  uint64_t row = format.header_lines;
  const auto* at = reinterpret_cast<const std::byte*>(text.data());
  for (const auto* const end = at + text.size(); at < end;) {
    const std::string_view item = items::item_at(format, at, end);
    if (item.empty() || items::fault_of(format, item)) break;
    at += item.size();
    ++row;
    if (auto odd = format.keys->find_odd_value(items::without_line_end(format, item), true))
      return std::pair(std::move(*odd), row);
  }
  return {};
}

}  // namespace

std::string number_notice(const FilesOptions& files, Beginnings& beginnings) {
  const ItemFormat& items = files.items;
  const auto has_word = [](const std::string& key) { return key.contains(':'); };
  const bool is_json = items.name == "jsonl";
  if ((items.name != "lines" && !is_json) || (items.csv && items.keys.empty())) return {};
  if (!items.csv && !is_json && !has_word(items.letters) && items.number_format.empty() &&
      std::ranges::none_of(items.keys, has_word))
    return {};
  const auto format = api::format_of(items);
  if (!format) return {};
  for (const std::string& input : files.inputs | std::views::take(seen_inputs_max)) {
    const Beginning& beginning = beginnings.of(input, files.source);
    const std::string text = beginning.rows(format->line_end);
    const auto head = items::head_bytes(*format, text, beginning.is_all);
    if (!head || !*head) continue;
    const auto made = items::with_header(*format, text.substr(0, **head), input);
    if (!made || made->keys == nullptr) continue;
    const auto found = find_value(*made, std::string_view(text).substr(**head));
    if (!found) continue;
    const auto& [value, row] = *found;
    return fmt::format("{}: {} (try: {})", io::shown_input(input),
                       files::describe(value, *made, row), files::hint_for(value, *made, row));
  }
  return {};
}

}  // namespace penstock::cli
