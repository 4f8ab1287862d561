#pragma once

// Options of the table (interfaces/api/option_table.h) on the command line.

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "cli/common/parser.h"
#include "interfaces/api/option_table.h"

namespace penstock::cli {

// The message about a bad count; empty if `text` is a whole number of 64 bits.
inline std::string what_is_wrong_with_a_count(const std::string& text) {
  uint64_t count = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, count);
  if (error == std::errc{} && at == end) return {};
  return "cannot take " + text + " items (try: a whole number)";
}

inline Option described(Option declared, const api::OptionText& text) {
  if (text.value != nullptr) declared.value_name(text.value);
  if (text.group != nullptr) declared.group(text.group);
  return declared.in(text.scope);
}

// Declares the option `text` of the table with a value that goes to `value`, which must outlive the
// parsing.
template <class Value>
Option add_option(Parser& parser, const api::OptionText& text, Value& value) {
  return described(parser.add_option(text.words, value, text.help), text);
}

// Declares the option `text` of the table as a flag.
template <class Value>
Option add_flag(Parser& parser, const api::OptionText& text, Value& value) {
  return described(parser.add_flag(text.words, value, text.help), text);
}

// Declares the option `text` of the table as a flag that sets `value`, true by default, to false.
inline Option add_flag_that_clears(Parser& parser, const api::OptionText& text, bool& value) {
  return described(parser.add_flag_that_clears(text.words, value, text.help), text);
}

// Declares the options of the struct Options that are flags, numbers, texts or lists. `options`
// must outlive the parsing.
template <class Options>
void add_options(Parser& parser, Options& options) {
  api::for_each_option<Options>([&](const api::OptionText& text, auto field) {
    using Value = std::remove_cvref_t<decltype(field(options))>;
    Value& value = field(options);
    if (text.words[0] == '\0') return;
    if constexpr (std::is_same_v<Value, bool>) {
      add_flag(parser, text, value);
    } else if constexpr (std::is_same_v<Value, std::optional<uint64_t>>) {
      add_option(parser, text, value).check(what_is_wrong_with_a_count);
    } else if constexpr (std::is_same_v<Value, unsigned> || std::is_same_v<Value, std::string> ||
                         std::is_same_v<Value, std::optional<uint32_t>> ||
                         std::is_same_v<Value, std::optional<std::string>> ||
                         std::is_same_v<Value, std::vector<std::string>>) {
      add_option(parser, text, value);
    }
  });
}

}  // namespace penstock::cli
