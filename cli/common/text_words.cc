#include "cli/common/text_words.h"

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

Result<std::optional<char>> separator_of(const TextWords& words) {
  if (!words.separator) return std::optional<char>();
  if (*words.separator == "\\0") return std::optional<char>('\0');
  if (words.separator->size() == 1) return std::optional<char>(words.separator->front());
  return misuse("separate fields by other than one byte", "-t '" + *words.separator + "'",
                "-t, or -t '\\0'");
}

}  // namespace

Result<std::string> TextWords::letters() const {
  std::string letters;
  const std::pair<bool, char> flags[] = {
      {blanks, 'b'}, {dictionary, 'd'}, {ignore_case, 'f'}, {printable, 'i'}, {general, 'g'},
      {human, 'h'},  {month, 'M'},      {numeric, 'n'},     {random, 'R'},    {version, 'V'}};
  for (const auto& [given, letter] : flags) {
    if (given) letters += letter;
  }
  if (sort.empty()) return letters;
  for (const auto& [word, letter] : sorts) {
    if (word == sort) return letters + letter;
  }
  return misuse("sort in this way", "--sort=" + sort,
                "general-numeric, human-numeric, month, numeric, random or version");
}

void add_text_words(Parser& parser, TextWords& words, bool short_human) {
  if (short_human) parser.give_up_short_help();
  parser.add_option("-t,--field-separator", words.separator,
                    "lines: what separates fields (default: blanks before each)");
  parser.add_flag("-z,--zero-terminated", words.zero, "lines end with a NUL, not with a newline");
  parser.add_flag("-n,--numeric-sort", words.numeric, "lines: by a number at the beginning");
  parser.add_flag("-g,--general-numeric-sort", words.general,
                  "lines: by a number as in 1e3, 0x1F, inf, nan");
  parser.add_flag(short_human ? "-h,--human-numeric-sort" : "--human-numeric-sort", words.human,
                  "lines: by a number as in 2K, 1G");
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

Result<std::shared_ptr<const record::KeyOrder>> text_order(const TextWords& words,
                                                           const std::vector<std::string>& keys,
                                                           const OrderRules& rules) {
  auto letters = words.letters();
  if (!letters) return std::unexpected(letters.error());
  auto separator = separator_of(words);
  if (!separator) return std::unexpected(separator.error());
  if (letters->empty() && keys.empty()) return nullptr;
  record::TextOptions options{.keys = keys,
                              .letters = *letters + (rules.descending ? "r" : ""),
                              .separator = *separator,
                              .stable = rules.stable,
                              .unique = rules.unique};
  auto order = record::TextOrder::make(options);
  if (!order || !(*order)->is_random() || rules.repeatable) return order;
  std::random_device random;
  options.random_seed = (uint64_t{random()} << 32) | random();
  return record::TextOrder::make(options);
}

}  // namespace penstock::cli
