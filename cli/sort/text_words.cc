#include "cli/sort/text_words.h"

#include <array>
#include <random>
#include <string_view>
#include <utility>

#include "base/misuse.h"
#include "record/text_order.h"

namespace penstock::cli {
namespace {

constexpr std::array<std::pair<std::string_view, char>, 6> sorts = {{{"general-numeric", 'g'},
                                                                     {"human-numeric", 'h'},
                                                                     {"month", 'M'},
                                                                     {"numeric", 'n'},
                                                                     {"random", 'R'},
                                                                     {"version", 'V'}}};

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
    if (word == words.sort) return letters + letter;
  }
  return misuse("sort in this way", "--sort=" + words.sort,
                "general-numeric, human-numeric, month, numeric, random or version");
}

Result<std::optional<char>> separator_of(const TextWords& words) {
  if (!words.separator) return std::optional<char>();
  if (*words.separator == "\\0") return std::optional<char>('\0');
  if (words.separator->size() == 1) return std::optional<char>(words.separator->front());
  return misuse("separate fields by other than one byte", "-t '" + *words.separator + "'",
                "-t, or -t '\\0'");
}

}  // namespace

void add_text_words(Parser& parser, TextWords& words) {
  parser.give_up_short_help();  // -h sorts
  parser
      .add_option("-k", words.keys,
                  "lines: a key, FIELD[.CHARACTER][bdfghiMnRrV][,FIELD[.CHARACTER][...]], as GNU "
                  "sort's --key; may be given several times")
      .one_word();
  parser.add_option("-t,--field-separator", words.separator,
                    "lines: what separates fields (default: blanks before each)");
  parser.add_flag("-z,--zero-terminated", words.zero, "lines end with a NUL, not with a newline");
  parser.add_flag("-n,--numeric-sort", words.numeric, "lines: by a number at the beginning");
  parser.add_flag("-g,--general-numeric-sort", words.general,
                  "lines: by a number as in 1e3, 0x1F, inf, nan");
  parser.add_flag("-h,--human-numeric-sort", words.human, "lines: by a number as in 2K, 1G");
  parser.add_flag("-M,--month-sort", words.month, "lines: by the name of a month, JAN to DEC");
  parser.add_flag("-V,--version-sort", words.version, "lines: by numbers within the text");
  parser.add_flag("-R,--random-sort", words.random, "lines: in any order, equal keys together");
  parser.add_option("--sort", words.sort,
                    "lines: general-numeric, human-numeric, month, numeric, random or version");
  parser.add_flag("-b,--ignore-leading-blanks", words.blanks, "keys begin behind blanks");
  parser.add_flag("-d,--dictionary-order", words.dictionary,
                  "of keys only letters, digits and blanks count");
  parser.add_flag("-f,--ignore-case", words.ignore_case, "of keys small letters are capitals");
  parser.add_flag("-i,--ignore-nonprinting", words.printable,
                  "of keys only what can be printed counts");
}

Status apply_text_words(const TextWords& words, bool stable, bool unique, bool repeatable,
                        record::Format& format, bool& descending) {
  auto letters = letters_of(words);
  if (!letters) return std::unexpected(letters.error());
  auto separator = separator_of(words);
  if (!separator) return std::unexpected(separator.error());
  const bool orders = !letters->empty() || !words.keys.empty();
  if (!orders && !words.zero) return {};
  if (format.type != record::Type::lines) {
    return misuse("order text",
                  orders && words.keys.empty() ? "-" + *letters
                  : orders                     ? "-k " + words.keys.front()
                                               : "-z",
                  "--format lines");
  }
  if (words.zero) format.line_end = '\0';
  if (!orders) return {};
  if (descending) *letters += 'r';
  auto order = record::text_order({.keys = words.keys,
                                   .letters = *letters,
                                   .separator = *separator,
                                   .stable = stable,
                                   .unique = unique});
  if (!order) return std::unexpected(order.error());
  if (order->is_random() && !repeatable) {
    std::random_device random;
    order->random_seed = (uint64_t{random()} << 32) | random();
  }
  format.text = std::make_shared<const record::TextOrder>(std::move(*order));
  descending = false;
  return {};
}

}  // namespace penstock::cli
