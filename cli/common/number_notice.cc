#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <ranges>
#include <string_view>

#include "base/printable.h"
#include "base/shell_word.h"
#include "cli/common/input_notices.h"
#include "interfaces/api/item_format.h"
#include "io/names.h"
#include "items/items.h"
#include "items/keys/text/key_bytes.h"
#include "items/keys/text/key_words.h"
#include "items/keys/text/text_order.h"

namespace penstock::cli {
namespace {

using items::TextCompare;
using items::TextKey;

constexpr size_t shown_characters_max = 40;

bool compares_numbers(const TextKey& key) {
  return key.compare == TextCompare::numeric || key.compare == TextCompare::general ||
         key.compare == TextCompare::human;
}

// Returns whether values that are none cause a notice. Those of lines whose keys are GNU sort's do
// not.
bool is_asked(const TextKey& key, const items::Format& format) {
  return items::may_be_none(key.compare) || (format.csv && compares_numbers(key));
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(blanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

// Returns the part of the text that counts, if it is not all of it.
std::optional<std::string_view> counted_part(TextKey key, TextCompare compare,
                                             std::string_view text, const items::TextOrder& order) {
  key.compare = compare;
  text = trimmed(text);
  if (items::may_be_none(compare)) {
    const bool counts = text.empty() || order.is_value(key, text);
    return counts ? std::nullopt : std::optional(std::string_view());
  }
  const std::string_view part = items::compared_part(key, text, order.locale());
  if (part.size() == text.size()) return {};
  return part;
}

// The first value that is no number, and how many there are.
struct OddValue {
  size_t key = 0;
  uint64_t row = 0;  // 1-based, with the header
  std::string value;
  uint64_t values = 0;
  uint64_t rows = 0;  // looked at
};

// Returns why the value is odd, and its place in the order.
std::string order_of(const TextKey& key, std::string_view part) {
  const TextCompare compare = key.compare;
  if (items::may_be_none(compare))
    return fmt::format("is no {} and comes {}", items::name_of_value(compare),
                       key.reverse ? "last" : "first");
  if (!part.empty()) return fmt::format("is more than a number and sorts as {}", part);
  return compare == TextCompare::general ? "is no number and sorts before all numbers"
                                         : "is no number and sorts as 0";
}

std::string hint_for_value(const TextKey& key, const std::string& column, const OddValue& found,
                           const items::Format& format, const items::TextOrder& order) {
  if (found.row == 1 && format.header_lines == 0) return "--header, if the first row is one";
  if (key.compare == TextCompare::time) return "--time-format FORMAT for times of another form";
  const bool is_of_gnu = !items::may_be_none(key.compare);
  if (!is_of_gnu && key.compare != TextCompare::number)
    return "the key without such a word, for the order of text";
  for (const auto& [compare, letter] :
       {std::pair(TextCompare::general, 'g'), std::pair(TextCompare::human, 'h')}) {
    if (is_of_gnu && !counted_part(key, compare, found.value, order))
      return "--key " + typed_word(fmt::format("{}:{}", column, letter));
  }
  for (const char* const example : {"1,234.50", "1.234,50"}) {
    std::string room;
    if (is_of_gnu && items::NumberFormat::parse(example)->read(found.value, room))
      return fmt::format("--number-format {}", example);
  }
  return fmt::format("numbers alone in this column, or --key {} for the order of text",
                     typed_word(column));
}

std::optional<OddValue> find_values(const items::Format& format, const items::TextOrder& order,
                                    std::string_view text) {
  std::optional<OddValue> found;
  uint64_t rows = 0;
  const auto* at = reinterpret_cast<const std::byte*>(text.data());
  for (const auto* const end = at + text.size(); at < end;) {
    const std::string_view row = items::item_at(format, at, end);
    if (row.empty() || items::fault_of(format, row)) break;
    at += row.size();
    ++rows;
    const auto values = order.texts(items::without_line_end(format, row));
    for (size_t key = 0; key < order.keys().size(); ++key) {
      const TextKey& one = order.keys()[key];
      if (!is_asked(one, format) || (found && found->key != key)) continue;
      if (!counted_part(one, one.compare, values[key], order)) continue;
      if (!found) found = OddValue{key, format.header_lines + rows, values[key]};
      ++found->values;
    }
  }
  if (found) found->rows = rows;
  return found;
}

// Returns the name of a column in the header, or else its number.
std::string name_of_column(const items::Format& format, std::string_view text, size_t column) {
  if (format.header_lines == 0 || !format.csv) return std::to_string(column + 1);
  text.remove_prefix(items::mark_bytes(format, text));
  const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
  const auto names = format.framing().columns(
      format, items::without_line_end(format, items::item_at(format, begin, begin + text.size())));
  return column < names.size() ? names[column] : std::to_string(column + 1);
}

}  // namespace

std::string number_notice(const FilesOptions& files, Beginnings& beginnings) {
  const ItemFormat& items = files.items;
  const auto has_word = [](const std::string& key) { return key.contains(':'); };
  if (items.name != "lines" || (items.csv && items.keys.empty())) return {};
  if (!items.csv && !has_word(items.letters) && items.number_format.empty() &&
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
    const auto& order = static_cast<const items::TextOrder&>(*made->keys);
    const auto found = find_values(*made, order, std::string_view(text).substr(**head));
    if (!found) continue;
    const TextKey& key = order.keys()[found->key];
    const std::string column = name_of_column(*made, text, key.start_field);
    const auto part = counted_part(key, key.compare, found->value, order);
    const char* const item = items.csv ? "row" : "line";
    return fmt::format(
        "{}: {} {}, {} {}: '{}' {}; {} of the first {} {}s {} such a value (try: {})",
        io::shown_input(input), item, found->row, items.csv ? "column" : "field", column,
        printable(found->value, shown_characters_max), order_of(key, part.value_or("")),
        found->values, found->rows, item, found->values == 1 ? "has" : "have",
        hint_for_value(key, column, *found, *format, order));
  }
  return {};
}

}  // namespace penstock::cli
