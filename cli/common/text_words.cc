#include "cli/common/text_words.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <random>
#include <string_view>
#include <utility>

#include "base/misuse.h"
#include "record/rows.h"
#include "record/text_order.h"

namespace penstock::cli {
namespace {

constexpr std::array<std::pair<std::string_view, char>, 6> sorts = {{{"general-numeric", 'g'},
                                                                     {"human-numeric", 'h'},
                                                                     {"month", 'M'},
                                                                     {"numeric", 'n'},
                                                                     {"random", 'R'},
                                                                     {"version", 'V'}}};

}  // namespace

Result<std::optional<char>> TextWords::separating() const {
  if (!separator) return std::optional<char>();
  if (*separator == "\\0") return std::optional<char>('\0');
  if (separator->size() == 1) return std::optional<char>(separator->front());
  return misuse("separate fields by other than one byte", "-t '" + *separator + "'",
                "-t, or -t '\\0'");
}

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

void add_line_words(Parser& parser, TextWords& words) {
  parser.add_option("-t,--field-separator", words.separator,
                    "lines: what separates fields (default: blanks before each)");
  parser.add_flag(
      "--csv", words.csv,
      "rows of CSV, with , or -t between their fields: quotes may hold these, and ends of "
      "lines; keys are columns, NUMBER or (with --header) NAME, with :LETTERS behind");
  parser.add_flag("--tsv", words.tsv, "the same, with tabs");
  parser.add_flag("--header", words.header,
                  "lines: the first one of each file stays in front; --header=N: the first N");
  parser.add_flag("-z,--zero-terminated", words.zero, "lines end with a NUL, not with a newline");
}

void add_text_words(Parser& parser, TextWords& words, bool short_human) {
  if (short_human) parser.give_up_short_help();
  add_line_words(parser, words);
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

// Chance is asked for where an order may be -R.
uint64_t seed_of(const OrderRules& rules, const std::string& letters,
                 const std::vector<std::string>& keys) {
  const bool may_shuffle =
      letters.contains('R') ||
      std::ranges::any_of(keys, [](const std::string& key) { return key.contains('R'); });
  if (rules.random_seed || rules.repeatable || !may_shuffle) return rules.random_seed.value_or(0);
  std::random_device random;
  return (uint64_t{random()} << 32) | random();
}

}  // namespace

Status apply_text_words(const TextWords& words, const std::vector<std::string>& keys,
                        const OrderRules& rules, record::Format& format) {
  auto letters = words.letters();
  if (!letters) return std::unexpected(letters.error());
  auto separator = words.separating();
  if (!separator) return std::unexpected(separator.error());
  auto header = header_lines(words);
  if (!header) return std::unexpected(header.error());
  if (words.csv && words.tsv) return misuse("be both", "--csv --tsv", "one of them");
  if (words.zero && words.rows())
    return misuse("end rows of CSV with NUL", "-z", "--csv without -z");
  if (words.zero) format.line_end = '\0';
  if (words.rows()) format.csv = separator->value_or(words.csv ? ',' : '\t');
  if (format.csv == record::quote || format.csv == '\n')
    return misuse("separate fields by what quotes them or ends rows", "-t", "another character");
  format.header_lines = *header;
  if (letters->empty() && keys.empty()) return {};
  record::TextOptions options{.keys = keys,
                              .letters = *letters + (rules.descending ? "r" : ""),
                              .separator = words.rows() ? format.csv : *separator,
                              .stable = rules.stable,
                              .unique = rules.unique,
                              .random_seed = seed_of(rules, *letters, keys),
                              .csv = words.rows()};
  // Names of columns are looked up in the header, when it is known.
  if (words.rows() && *header > 0) {
    format.columns = std::make_shared<const record::TextOptions>(std::move(options));
    return {};
  }
  auto order = record::TextOrder::make(options);
  if (!order) return std::unexpected(order.error());
  format.keys = *order;
  return {};
}

}  // namespace penstock::cli
