#include "items/keys/text/odd_value.h"

#include <fmt/format.h>

#include <utility>

#include "base/shell_word.h"
#include "items/keys/text/key_bytes.h"
#include "items/keys/text/key_words.h"

namespace penstock::items {
namespace {

std::string_view without_blanks_around(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(blanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

// Returns the part of the text that counts, if it is not all of it.
std::optional<std::string_view> counted_part(TextKey key, TextCompare compare,
                                             std::string_view text, const Locale* locale,
                                             const ValueFormats& formats) {
  key.compare = compare;
  text = without_blanks_around(text);
  if (may_be_none(compare)) {
    const bool counts =
        text.empty() || is_value(key, text, {.locale = locale, .formats = &formats});
    return counts ? std::nullopt : std::optional(std::string_view());
  }
  const std::string_view part = compared_part(key, text, locale);
  if (part.size() == text.size()) return {};
  return part;
}

// Returns why the value is odd, and its place in the order.
std::string order_of(const TextKey& key, std::string_view part) {
  const TextCompare compare = key.compare;
  if (may_be_none(compare))
    return fmt::format("is no {} and comes {}", name_of_value(compare),
                       key.reverse ? "last" : "first");
  if (!part.empty()) return fmt::format("is more than a number and sorts as {}", part);
  return compare == TextCompare::general ? "is no number and sorts before all numbers"
                                         : "is no number and sorts as 0";
}

std::string hint_for(const TextKey& key, std::string_view text, std::string_view name,
                     const Locale* locale, const ValueFormats& formats) {
  if (key.compare == TextCompare::time) return "--time-format FORMAT for times of another form";
  const bool is_of_gnu = !may_be_none(key.compare);
  if (!is_of_gnu && key.compare != TextCompare::number)
    return "the key without such a word, for the order of text";
  for (const auto& [compare, letter] :
       {std::pair(TextCompare::general, 'g'), std::pair(TextCompare::human, 'h')}) {
    if (is_of_gnu && !counted_part(key, compare, text, locale, formats))
      return "--key " + typed_word(fmt::format("{}:{}", name, letter));
  }
  for (const char* const example : {"1,234.50", "1.234,50"}) {
    std::string room;
    if (is_of_gnu && NumberFormat::parse(example)->read(text, room))
      return fmt::format("--number-format {}", example);
  }
  return fmt::format("numbers alone in this column, or --key {} for the order of text",
                     typed_word(name));
}

}  // namespace

std::optional<OddValue> odd_value_of(const TextKey& key, std::string_view text,
                                     const Locale* locale, const ValueFormats& formats) {
  if (!counted_part(key, key.compare, text, locale, formats)) return {};
  return OddValue{.text = std::string(text)};
}

void describe(OddValue& value, const TextKey& key, std::string_view noun, std::string_view name,
              const Locale* locale, const ValueFormats& formats) {
  const auto part = counted_part(key, key.compare, value.text, locale, formats);
  value.place = fmt::format("{} {}", noun, name);
  value.order = order_of(key, part.value_or(""));
  value.hint = hint_for(key, value.text, name, locale, formats);
}

}  // namespace penstock::items
