#include "items/keys/text/key_words.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <optional>

#include "base/misuse.h"
#include "items/keys/text/text_order.h"

namespace penstock::items {
namespace {

constexpr unsigned bit_of(TextCompare compare) {
  return 1u << static_cast<unsigned>(compare);
}

// Reads a count. One that is too large becomes the greatest.
bool read_count(std::string_view& text, size_t& count) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (end == text.data()) return false;
  if (error == std::errc::result_out_of_range) count = TextKey::line_end;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

std::string names_of(const std::vector<std::string>& header) {
  std::string names;
  for (const std::string& column : header) names += (names.empty() ? "" : ", ") + column;
  return names;
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
                option, "one of " + names_of(header) + ", or a number");
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

}  // namespace

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

bool settle(Written& written) {
  constexpr unsigned of_texts = bit_of(TextCompare::random) | bit_of(TextCompare::version);
  TextKey& key = written.key;
  if (written.compares == 0) return true;
  const bool leaves_out = key.only_letters || key.only_printable;
  const bool is_of_texts = (written.compares & ~of_texts) == 0;
  if (!is_of_texts && (leaves_out || !std::has_single_bit(written.compares))) return false;
  // -R wins over -V, like in GNU sort.
  if ((written.compares & bit_of(TextCompare::random)) != 0)
    written.compares = bit_of(TextCompare::random);
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
  if (!read_count(text, key.start_field)) return bad_key(spec, "begins with no field");
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
  if (!text.empty()) return bad_key(spec, "has '" + std::string(text) + "' behind it");
  return written;
}

Result<Written> read_column(std::string_view spec, const std::vector<std::string>& header) {
  Written written;
  TextKey& key = written.key;
  std::string_view name = spec;
  for (;;) {
    const auto column =
        named_column(name, header, "--key " + std::string(spec),
                     "the column's number, as in --key " + numbers_of(name, header));
    if (!column) return std::unexpected(column.error());
    if (*column) {
      key.start_field = **column;
      return written;
    }
    const size_t colon = name.rfind(':');
    if (colon == name.npos) break;
    std::string_view letters = name.substr(colon + 1);
    read_letters(letters, written, true, true);
    if (!letters.empty()) {
      return misuse("sort by a column whose letters are not of bdfghiMnRrV",
                    "--key " + std::string(spec), "NAME or NUMBER, as in --key price:n:r");
    }
    name = name.substr(0, colon);
  }
  if (const auto column = numbered_column(name)) {
    if (auto there = check_number(*column, header, "--key " + std::string(spec)); !there)
      return std::unexpected(there.error());
    key.start_field = *column;
    return written;
  }
  return misuse(
      "find this column", "--key " + std::string(spec),
      as_columns(spec, header)
          .value_or(header.empty() ? "a number from 1 on, and letters behind a colon, as in --key "
                                     "2:n; a name with --header"
                                   : "one of " + names_of(header) + ", or a number"));
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
  return misuse("find this column", option,
                header.empty() ? "a number from 1 on; with --csv --header a name"
                               : "one of " + names_of(header) + ", or a number");
}

}  // namespace penstock::items
