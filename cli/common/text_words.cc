#include "cli/common/text_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <ranges>
#include <string_view>
#include <utility>

#include "base/misuse.h"
#include "cli/common/modes.h"
#include "cli/common/option_words.h"

namespace penstock::cli {
namespace {

// The letter, or the word in place of one, that each --sort stands for.
constexpr std::array<std::pair<std::string_view, std::string_view>, 11> sorts = {
    {{"general-numeric", "g"},
     {"hex", ":hex"},
     {"human-numeric", "h"},
     {"ip", ":ip"},
     {"month", "M"},
     {"natural", ":natural"},
     {"numeric", "n"},
     {"random", "R"},
     {"semver", ":semver"},
     {"time", ":time"},
     {"version", "V"}}};

Result<std::optional<char>> separator_of(const TextWords& words) {
  if (!words.separator) return std::optional<char>();
  if (*words.separator == "\\0") return std::optional<char>('\0');
  if (words.separator->size() == 1) return std::optional<char>(words.separator->front());
  return misuse("separate fields by other than one byte", "-t '" + *words.separator + "'",
                *words.separator == "\\t" ? "-t $'\\t', or --tsv where quotes may hold tabs"
                                          : "one byte, as in -t ';' or -t $'\\t'; -t '\\0' is NUL");
}

// The options' letters as they follow a key. Errors: no such --sort.
Result<std::string> letters_of(const TextWords& words) {
  std::string letters;
  const std::pair<bool, char> flags[] = {{words.blanks, 'b'},      {words.dictionary, 'd'},
                                         {words.ignore_case, 'f'}, {words.printable, 'i'},
                                         {words.general, 'g'},     {words.human, 'h'},
                                         {words.month, 'M'},       {words.numeric, 'n'},
                                         {words.random, 'R'},      {words.version, 'V'}};
  for (const auto& [given, letter] : flags) {
    if (given) letters += letter;
  }
  if (words.sort.empty()) return letters;
  for (const auto& [word, letter] : sorts) {
    if (word == words.sort) return letters.append(letter);
  }
  return misuse("sort in this way", "--sort=" + words.sort,
                fmt::format("one of {}", fmt::join(sorts | std::views::keys, ", ")));
}

}  // namespace

void add_line_words(Parser& parser, TextWords& words, bool orders) {
  using api::option;
  parser.group("Input and output");
  add_option(parser, option<ItemFormat>("separator"), words.separator);
  add_flag(parser, option<ItemFormat>("csv"), words.csv);
  parser.add_flag("--tsv", words.tsv, "like --csv, but with tabs between fields")
      .in(modes::all_items & ~modes::keys_shown);
  add_option(parser, option<ItemFormat>("quote"), words.quote);
  add_option(parser, option<ItemFormat>("escape"), words.escape);
  add_flag(parser, option<ItemFormat>("lenient"), words.lenient);
  add_flag(parser, option<ItemFormat>("header_lines"), words.header)
      .values_like([](const std::string& word) {
        return !word.empty() && word.find_first_not_of("0123456789") == word.npos;
      });
  parser
      .add_flag("--no-header", words.no_header,
                "the first line is data; keys are numbers of columns")
      .in(modes::all_items & ~modes::keys_shown & ~modes::cluster);
  if (orders) {
    add_flag(parser, option<ItemFormat>("locale"), words.locale)
        .values_like([](const std::string& word) {
          return word == "C" || word == "POSIX" || word.find("_") == 2 ||
                 word.find(".UTF-8") != word.npos;
        });
    add_option(parser, option<ItemFormat>("time_format"), words.time_format);
    add_option(parser, option<ItemFormat>("number_format"), words.number_format);
  }
  add_flag(parser, option<ItemFormat>("zero_terminated"), words.zero);
}

void add_text_words(Parser& parser, TextWords& words, bool short_human) {
  if (short_human) parser.give_up_short_forms();
  constexpr unsigned not_on_cluster = modes::all_items & ~modes::cluster;
  add_line_words(parser, words);
  parser.group("Order");
  parser.add_flag("-n,--numeric-sort", words.numeric, "lines: compare leading numbers")
      .in(modes::all_items);
  parser
      .add_flag("-g,--general-numeric-sort", words.general,
                "lines: compare numbers such as 1e3, 0x1F, inf, nan")
      .rare()
      .in(modes::all_items);
  parser
      .add_flag(short_human ? "-h,--human-numeric-sort" : "--human-numeric-sort", words.human,
                "lines: compare sizes such as 2K, 1G")
      .in(not_on_cluster);
  parser.add_flag("-M,--month-sort", words.month, "lines: compare month names, JAN to DEC")
      .rare()
      .in(not_on_cluster);
  parser
      .add_flag("-V,--version-sort", words.version,
                "lines: compare numbers within the text, as in v1.10")
      .in(not_on_cluster);
  parser.add_flag("-R,--random-sort", words.random, "lines: shuffle, equal keys together")
      .in(not_on_cluster);
  parser
      .add_option("--sort", words.sort,
                  "lines: -g, -h, -M, -n, -R or -V by name: general-numeric, human-numeric, "
                  "month, numeric, random or version; or as a key's :time, :ip, :natural, :semver "
                  "or :hex")
      .value_name("HOW")
      .offers({"general-numeric", "hex", "human-numeric", "ip", "month", "natural", "numeric",
               "random", "semver", "time", "version"})
      .rare()
      .in(modes::all_items);
  parser.add_flag("-b,--ignore-leading-blanks", words.blanks, "ignore leading blanks")
      .rare()
      .in(modes::all_items);
  parser
      .add_flag("-d,--dictionary-order", words.dictionary,
                "compare only letters, digits and blanks")
      .rare()
      .in(modes::all_items);
  parser.add_flag("-f,--ignore-case", words.ignore_case, "ignore case").in(modes::all_items);
  parser.add_flag("-i,--ignore-nonprinting", words.printable, "compare only printable characters")
      .rare()
      .in(not_on_cluster);
}

namespace {

Result<uint32_t> header_lines(const TextWords& words) {
  if (words.header.empty()) return 0;
  if (words.header == "true") return 1;
  uint32_t lines = 0;
  const char* const end = words.header.data() + words.header.size();
  const auto [at, error] = std::from_chars(words.header.data(), end, lines);
  if (error == std::errc{} && at == end && lines > 0) return lines;
  return misuse("keep such a header", "--header=" + words.header,
                "--header, or --header=2 for two lines");
}

}  // namespace

Status apply_text_words(const TextWords& words, ItemFormat& items) {
  auto letters = letters_of(words);
  if (!letters) return std::unexpected(letters.error());
  auto separator = separator_of(words);
  if (!separator) return std::unexpected(separator.error());
  auto header = header_lines(words);
  if (!header) return std::unexpected(header.error());
  if (words.csv && words.tsv) return misuse("be both", "--csv --tsv", "one of them");
  if (*header > 0 && words.no_header)
    return misuse("be both", "--header --no-header", "one of them");
  items.letters = *letters;
  items.separator = *separator;
  items.csv = words.rows();
  items.quote = words.quote;
  items.escape = words.escape;
  items.lenient = words.lenient;
  if (words.tsv && !items.separator) items.separator = '\t';
  if (!words.locale.empty()) items.locale = words.locale == "true" ? "" : words.locale;
  items.time_format = words.time_format;
  items.number_format = words.number_format;
  items.header_lines = *header;
  items.zero_terminated = words.zero;
  return {};
}

}  // namespace penstock::cli
