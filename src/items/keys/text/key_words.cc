#include "items/keys/text/key_words.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>

#include "base/did_you_mean.h"
#include "base/misuse.h"
#include "base/shell_word.h"
#include "items/keys/text/text_order.h"

namespace penstock::items {
namespace {

constexpr unsigned bit_of(TextCompare compare) {
  return 1u << static_cast<unsigned>(compare);
}

// Comparisons of texts, which may leave out characters. (Letters without a comparison are of texts,
// too.)
constexpr unsigned compares_of_texts =
    bit_of(TextCompare::random) | bit_of(TextCompare::version) | bit_of(TextCompare::natural);

// Reads a count. One that is too large becomes the greatest.
bool read_count(std::string_view& text, size_t& count) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (end == text.data()) return false;
  if (error == std::errc::result_out_of_range) count = TextKey::line_end;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

// Returns the hint for a name that no column has. A header of one column may have another separator
// than was given.
std::string hint_of_columns(const std::vector<std::string>& header) {
  constexpr size_t names_max = 20;
  std::string names;
  for (size_t i = 0; i < std::min(header.size(), names_max); ++i)
    names += (i == 0 ? "" : ", ") + typed_word(header[i]);
  if (header.size() > names_max)
    names += " or another of the " + std::to_string(header.size()) + " columns";
  if (header.size() == 1) {
    for (const char separator : {'\t', ';', '|', ','}) {
      if (!header.front().contains(separator)) continue;
      return separator == '\t' ? "--tsv in place of --csv"
                               : std::string("-t '") + separator + "', if it separates the columns";
    }
  }
  return "one of " + names;
}

// Returns the 0-based column that the header calls so. `option` and `hint` are for the error if it
// has two.
Result<std::optional<size_t>> named_column(std::string_view name,
                                           const std::vector<std::string>& header,
                                           const std::string& option, const std::string& hint) {
  const auto place = std::ranges::find(header, name);
  if (place == header.end()) return std::nullopt;
  if (std::find(place + 1, header.end(), name) != header.end())
    return misuse("choose between columns of the same name", option, hint);
  return static_cast<size_t>(place - header.begin());
}

// Reads "2", and returns 0-based 1.
std::optional<size_t> numbered_column(std::string_view name) {
  size_t number = 0;
  if (read_count(name, number) && name.empty() && number > 0) return number - 1;
  return {};
}

// Returns "1 or 2" for columns of one name.
std::string numbers_of(std::string_view name, const std::vector<std::string>& header) {
  std::string numbers;
  for (size_t i = 0; i < header.size(); ++i) {
    if (header[i] == name) numbers += (numbers.empty() ? "" : " or ") + std::to_string(i + 1);
  }
  return numbers;
}

Status check_number(size_t column, const std::vector<std::string>& header,
                    const std::string& option) {
  if (header.empty() || column < header.size()) return {};
  return misuse("find column " + std::to_string(column + 1) + ": the header has " +
                    std::to_string(header.size()),
                option, hint_of_columns(header));
}

// Returns the keys of columns that a key of lines, "2,2n", or a list, "id,name", means.
std::optional<std::string> as_columns(std::string_view spec,
                                      const std::vector<std::string>& header) {
  const size_t comma = spec.find(',');
  if (comma == spec.npos || comma == 0) return {};
  // A number may have letters behind it; a name is taken whole.
  auto divide = [](std::string_view text) {
    const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    Written ignored;
    std::string_view behind = text.substr(digits);
    read_letters(behind, ignored, true, true);
    const size_t bytes = behind.empty() ? digits : text.size();
    return std::pair(std::string(text.substr(0, bytes)), std::string(text.substr(bytes)));
  };
  const std::string_view rest = spec.substr(comma + 1);
  auto [first, letters] = divide(spec.substr(0, comma));
  if (first.empty()) std::swap(first, letters);
  const auto [last, letters_behind] = divide(rest);
  if ((!last.empty() && last != first) || std::ranges::find(header, rest) != header.end())
    return "--key " + first + " --key " + std::string(rest);
  letters += letters_behind;
  return "--key " + first + (letters.empty() ? "" : ":" + letters);
}

// Long words for an order, and ours. The first letters of one suffice.
constexpr std::pair<std::string_view, std::string_view> long_words[] = {
    {"numeric", "n"},       {"number", "n"},          {"numerical", "n"},     {"integer", "n"},
    {"decimal", "n"},       {"general-numeric", "g"}, {"float", "g"},         {"double", "g"},
    {"ignore-case", "f"},   {"human-numeric", "h"},   {"month", "M"},         {"version", "V"},
    {"random", "R"},        {"reverse", "desc"},      {"descending", "desc"}, {"ascending", "asc"},
    {"timestamp", "time"},  {"datetime", "time"},     {"iso8601", "time"},    {"epoch", "time"},
    {"address", "ip"},      {"ipv4", "ip"},           {"ipv6", "ip"},         {"cidr", "ip"},
    {"natsort", "natural"}, {"hexadecimal", "hex"}};

// Orders of values, and a noun for one of these.
struct ValueWord {
  std::string_view word;
  TextCompare compare;
  std::string_view noun;
};
constexpr ValueWord words_of_values[] = {{"time", TextCompare::time, "time"},
                                         {"ip", TextCompare::address, "address"},
                                         {"natural", TextCompare::natural, "text"},
                                         {"semver", TextCompare::semver, "semantic version"},
                                         {"hex", TextCompare::hexadecimal, "hexadecimal number"}};

// Reads "desc", "asc", or the word of an order of values.
bool read_word(std::string_view word, Written& written) {
  const auto* const value = std::ranges::find(words_of_values, word, &ValueWord::word);
  if (value != std::end(words_of_values)) {
    written.compares |= bit_of(value->compare);
    return true;
  }
  if (word != "desc" && word != "asc") return false;
  (word == "desc" ? written.key.reverse : written.ascends) = true;
  return true;
}

// Returns our word for an order that follows a key, as "n" for "Numeric"; empty if there is none.
std::string short_word(std::string_view word) {
  std::string low(word);
  for (char& c : low) c = c == '_' ? '-' : 'A' <= c && c <= 'Z' ? static_cast<char>(c | 0x20) : c;
  const auto ours = std::ranges::find_if(
      long_words, [&](const auto& one) { return low.size() >= 3 && one.first.starts_with(low); });
  if (ours != std::end(long_words)) return std::string(ours->second);
  Written ignored;
  for (const std::string_view letters : {word, std::string_view(low)}) {
    if (read_word(letters, ignored)) return std::string(letters);
    std::string_view rest = letters;
    read_letters(rest, ignored, true, true);
    if (rest.empty()) return std::string(letters);
  }
  return {};
}

// Returns the key with our words for its orders, "price:n:desc" for "price:numeric:DESC"; empty if
// the last one has none.
std::string with_short_words(std::string_view spec) {
  std::string orders;
  for (size_t colon; (colon = spec.rfind(':')) != spec.npos; spec = spec.substr(0, colon)) {
    const std::string ours = short_word(spec.substr(colon + 1));
    if (ours.empty()) break;
    orders = ":" + ours + orders;
  }
  return orders.empty() ? orders : std::string(spec) + orders;
}

// Returns the key that other programs write as "price desc", "-price" or "\"unit price\":n"; empty if
// no column is meant.
std::string of_other_programs(std::string_view spec, const std::vector<std::string>& header) {
  if (spec.contains('"')) {
    std::string plain(spec);
    std::erase(plain, '"');
    return read_columns(plain, header) ? plain : std::string();
  }
  const size_t blank = std::min(spec.rfind(' '), spec.size());
  const std::string_view name = spec.substr(0, blank);
  const std::string order = blank < spec.size() ? short_word(spec.substr(blank + 1)) : "";
  if (!order.empty() && std::ranges::find(header, name) != header.end())
    return std::string(name) + ":" + order;
  const bool is_signed = spec.starts_with('-') || spec.starts_with('+');
  if (!is_signed || std::ranges::find(header, spec.substr(1)) == header.end()) return {};
  return std::string(spec.substr(1)) + (spec.front() == '-' ? ":desc" : "");
}

// Consumes the words after colons at the end of a key.
void cut_words(std::string_view& text, Written& written) {
  for (size_t colon; (colon = text.rfind(':')) != text.npos; text = text.substr(0, colon)) {
    const std::string_view word = text.substr(colon + 1);
    if (!read_word(word == "r" ? "desc" : word, written)) return;
  }
}

// Returns whether this was meant for the letters of the column in front of it, as in "price,n".
bool are_letters(std::string_view text) {
  Written ignored;
  read_letters(text, ignored, true, true);
  return text.empty();
}

}  // namespace

std::string_view name_of_value(TextCompare compare) {
  if (compare == TextCompare::number) return "number";
  return std::ranges::find(words_of_values, compare, &ValueWord::compare)->noun;
}

void read_letters(std::string_view& text, Written& written, bool at_start, bool at_end) {
  TextKey& key = written.key;
  for (; !text.empty(); text.remove_prefix(1)) {
    switch (text.front()) {
      case 'b':
        key.skips_blanks_at_start |= at_start;
        key.skips_blanks_at_end |= at_end;
        break;
      case 'd':
        key.only_letters = true;
        key.only_printable = false;  // -d is stricter, wherever it stands
        break;
      case 'f':
        key.ignores_case = true;
        break;
      case 'i':
        key.only_printable = !key.only_letters;
        break;
      case 'r':
        key.reverse = true;
        break;
      case 'g':
        written.compares |= bit_of(TextCompare::general);
        break;
      case 'h':
        written.compares |= bit_of(TextCompare::human);
        break;
      case 'M':
        written.compares |= bit_of(TextCompare::month);
        break;
      case 'n':
        written.compares |= bit_of(TextCompare::numeric);
        break;
      case 'R':
        written.compares |= bit_of(TextCompare::random);
        break;
      case 'V':
        written.compares |= bit_of(TextCompare::version);
        break;
      default:
        return;
    }
  }
}

Result<Written> read_whole(std::string_view letters) {
  Written whole;
  std::string_view rest = letters;
  read_letters(rest, whole, true, true);
  if (rest.empty() || (rest.starts_with(':') && read_word(rest.substr(1), whole))) return whole;
  return misuse("sort by the order \"" + std::string(rest.substr(0, 1)) + "\"",
                "letters " + std::string(letters), "some of bdfghiMnRrV");
}

std::string shown_letters(std::string_view letters) {
  const size_t colon = std::min(letters.find(':'), letters.size());
  std::string shown = colon == 0 ? "" : "-" + std::string(letters.substr(0, colon));
  if (colon == letters.size()) return shown;
  return shown + (colon == 0 ? "" : " ") + "--sort=" + std::string(letters.substr(colon + 1));
}

Status read_order(std::string_view word, std::string_view spec, Written& written) {
  const std::string_view written_order = word;
  if (read_word(word, written)) return {};
  read_letters(word, written, true, true);
  if (word.empty()) return {};
  const std::string ours = with_short_words(spec);
  return misuse("read '" + std::string(written_order) + "' as an order",
                "--key " + std::string(spec),
                ours.empty() ? "NAME:n for numbers, NAME:desc for descending; its letters are "
                               "of bdfghiMnRrV, its words time, ip, natural, semver and hex"
                             : "--key " + typed_word(ours));
}

void Written::inherit_as_field(const Written& all) {
  if (!orders_nothing() || key.reverse) return;
  const TextKey place = key;
  *this = all;
  key.start_field = place.start_field;
  key.start_character = place.start_character;
  key.end_field = place.end_field;
  key.end_characters = place.end_characters;
}

void Written::inherit_as_column(const Written& all) {
  if (!ascends && !key.reverse) key.reverse = all.key.reverse;
  const bool leaves_out = key.only_letters || key.only_printable;
  const bool is_text = leaves_out || key.ignores_case;
  if (compares == 0) compares = is_text ? all.compares & compares_of_texts : all.compares;
  const bool is_number = (compares & ~compares_of_texts) != 0;
  if (!leaves_out && (!is_number || compares == all.compares)) {
    key.only_letters = all.key.only_letters;
    key.only_printable = all.key.only_printable;
  }
  key.ignores_case |= all.key.ignores_case;
  key.skips_blanks_at_start |= all.key.skips_blanks_at_start;
  key.skips_blanks_at_end |= all.key.skips_blanks_at_end;
}

bool settle(Written& written) {
  TextKey& key = written.key;
  if (written.ascends && key.reverse) return false;
  if (written.compares == 0) return true;
  const bool leaves_out = key.only_letters || key.only_printable;
  const bool is_of_texts = (written.compares & ~compares_of_texts) == 0;
  if (!is_of_texts && (leaves_out || !std::has_single_bit(written.compares))) return false;
  // -R wins over -V, like in GNU sort.
  if ((written.compares & bit_of(TextCompare::random)) != 0)
    written.compares = bit_of(TextCompare::random);
  if (!std::has_single_bit(written.compares)) return false;
  key.compare = static_cast<TextCompare>(std::countr_zero(written.compares));
  return true;
}

std::unexpected<Error> bad_key(std::string_view spec, std::string_view why) {
  return misuse("sort by a key that " + std::string(why), "-k " + std::string(spec),
                "-k FIELD[.CHARACTER][bdfghiMnRrV][,FIELD[.CHARACTER][bdfghiMnRrV]]");
}

Result<Written> read_key(std::string_view spec) {
  Written written;
  TextKey& key = written.key;
  std::string_view text = spec;
  cut_words(text, written);
  if (Written words = written; !settle(words))
    return bad_key(spec, "has two orders that exclude each other");
  if (spec.empty())
    return misuse("sort by a column without a name", "--key ''", "--key NAME, or -k 1 for a field");
  if (!read_count(text, key.start_field))
    return misuse("sort by a key that begins with no field", "-k " + std::string(spec),
                  "the field's number, as in -k 2,2n; for the name of a column --csv --header");
  if (key.start_field-- == 0) return bad_key(spec, "begins with field 0; the first is 1");
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (!read_count(text, key.start_character)) return bad_key(spec, "begins with no character");
    if (key.start_character-- == 0) return bad_key(spec, "begins with character 0; the first is 1");
  }
  read_letters(text, written, true, false);
  if (text.starts_with(',')) {
    text.remove_prefix(1);
    if (!read_count(text, key.end_field)) return bad_key(spec, "ends with no field");
    if (key.end_field-- == 0) return bad_key(spec, "ends with field 0; the first is 1");
    if (text.starts_with('.')) {
      text.remove_prefix(1);
      if (!read_count(text, key.end_characters)) return bad_key(spec, "ends with no character");
    }
    read_letters(text, written, false, true);
  }
  if (!text.empty()) return bad_key(spec, "ends with '" + std::string(text) + "'");
  return written;
}

bool names_column(std::string_view spec) {
  if (spec.empty()) return false;
  const bool begins_as_number = '0' <= spec.front() && spec.front() <= '9';
  Written ignored;
  if (spec.contains(',')) cut_words(spec, ignored);
  const bool is_byte_range = spec.find_first_not_of("0123456789:") == spec.npos;
  const bool is_of_lines = spec.find_first_not_of("0123456789.,bdfghiMnRrV") == spec.npos;
  return !begins_as_number || !(is_byte_range || is_of_lines);
}

Result<Written> read_column(std::string_view spec, const std::vector<std::string>& header) {
  Written written;
  TextKey& key = written.key;
  std::string_view name = spec;
  for (;;) {
    const auto column =
        named_column(name, header, "--key " + std::string(spec),
                     "the column's number, as in --csv --header --key " + numbers_of(name, header));
    if (!column) return std::unexpected(column.error());
    if (*column) {
      key.start_field = **column;
      return written;
    }
    const size_t colon = name.rfind(':');
    if (colon == name.npos) break;
    if (Status status = read_order(name.substr(colon + 1), spec, written); !status)
      return std::unexpected(status.error());
    name = name.substr(0, colon);
  }
  if (name == "0")
    return misuse("find column 0: the first is 1", "--key " + std::string(spec),
                  "--key 1" + std::string(spec.substr(1)));
  if (const auto column = numbered_column(name)) {
    if (auto there = check_number(*column, header, "--key " + std::string(spec)); !there)
      return std::unexpected(there.error());
    key.start_field = *column;
    return written;
  }
  auto other = as_columns(spec, header);
  if (const std::string ours = of_other_programs(spec, header); !ours.empty())
    other = "--key " + typed_word(ours);
  return misuse(
      "find this column" + (other ? std::string() : did_you_mean(name, header)),
      "--key " + std::string(spec),
      other.value_or(header.empty() ? "a number from 1 on, and letters after a colon, as in --key "
                                      "2:n; a name with --header"
                                    : hint_of_columns(header)));
}

namespace {

// Reads a list of names with commas between them, some of which may be parts of a name: each time
// the longest list of words that `read` accepts. Returns the error of the first word that it does not.
template <class Column, class Read>
Result<std::vector<Column>> read_list(std::string_view spec, const Read& read) {
  std::vector<Column> columns;
  for (size_t at = 0; at <= spec.size();) {
    size_t end = spec.size();
    Result<Column> column = read(spec.substr(at));
    while (!column) {
      const size_t comma = end == 0 ? spec.npos : spec.rfind(',', end - 1);
      if (comma == spec.npos || comma < at) return std::unexpected(column.error());
      end = comma;
      column = read(spec.substr(at, end - at));
    }
    columns.push_back(*column);
    at = end + 1;
  }
  return columns;
}

}  // namespace

Result<std::vector<Written>> read_columns(std::string_view spec,
                                          const std::vector<std::string>& header) {
  const auto alone = read_column(spec, header);
  if (alone) return std::vector{*alone};
  if (spec.find(',') == spec.npos || read_key(spec)) return std::unexpected(alone.error());
  return read_list<Written>(spec, [&](std::string_view word) -> Result<Written> {
    auto column = read_column(word, header);
    if (!column && are_letters(word)) return std::unexpected(alone.error());
    return column;
  });
}

Result<size_t> column_of(std::string_view name, const std::vector<std::string>& header,
                         const std::string& option) {
  const auto named =
      named_column(name, header, option, "the column's number, " + numbers_of(name, header));
  if (!named) return std::unexpected(named.error());
  if (*named) return **named;
  if (const auto column = numbered_column(name)) {
    if (auto there = check_number(*column, header, option); !there)
      return std::unexpected(there.error());
    return *column;
  }
  return misuse(
      "find this column" + did_you_mean(name, header), option,
      header.empty() ? "a number from 1 on; with --csv --header a name" : hint_of_columns(header));
}

Result<std::vector<size_t>> columns_of(std::string_view names,
                                       const std::vector<std::string>& header,
                                       const std::string& option) {
  return read_list<size_t>(names,
                           [&](std::string_view name) { return column_of(name, header, option); });
}

}  // namespace penstock::items
