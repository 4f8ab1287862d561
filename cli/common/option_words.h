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

// Returns whether a text is a whole number of 64 bits.
inline bool is_whole_number(const std::string& text) {
  uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && at == end;
}

// The message about a bad count; empty if it is none.
inline std::string what_is_wrong_with_a_count(const std::string& text) {
  if (is_whole_number(text)) return {};
  return "cannot take " + text + " items (try: a whole number)";
}
inline std::string what_is_wrong_with_a_seed(const std::string& text) {
  if (is_whole_number(text)) return {};
  return "cannot take '" + text + "' as a seed (try: a whole number)";
}

// The names of disks that --device and its like take, besides profiles of penstock disk.
inline constexpr const char* disk_names[] = {"array24", "hdd", "sata-ssd", "nvme"};

inline Option described(Option declared, const api::OptionText& text) {
  if (text.value != nullptr) {
    declared.value_name(text.value);
    if (std::string_view(text.value) == "FILE") declared.names_files(FileUse::read);
  }
  if (text.group != nullptr) declared.group(text.group);
  if ((text.scope & scope::rare) != 0) declared.rare();
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

// Declares the options of the struct Options that are flags, numbers, texts or lists. (A flag with an
// optional value is declared where that is read.) `options` must outlive the parsing.
template <class Options>
void add_options(Parser& parser, Options& options) {
  api::for_each_option<Options>([&](const api::OptionText& text, auto field) {
    using Value = std::remove_cvref_t<decltype(field(options))>;
    Value& value = field(options);
    if (text.words[0] == '\0') return;
    if constexpr (std::is_same_v<Value, bool>) {
      if (text.value == nullptr) add_flag(parser, text, value);
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
