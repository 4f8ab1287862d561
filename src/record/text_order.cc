#include "record/text_order.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/misuse.h"
#include "record/hash.h"
#include "record/rows.h"

// How each order becomes bytes. The bytes of a key never are the beginning of those of another key,
// so that the next key's can follow at once, and so that the complement of all bytes is the reverse
// order.
//
//   bytes     the text; NUL as 0 2, and 0 1 at the end. (A last key that is not reversed needs
//             neither.) -d, -f and -i leave out and change bytes first.
//   numeric   0x80 is zero. Positive: how many digits stand before the point (0x81 + n; from 100 on
//             0xe5 + the bytes of n, and n), all digits without the zeros at the end, two to a byte
//             (1 + their number), and 0. Negative: the complement of that.
//   human     0x80 + the power of 1024, negative for negative numbers; the number.
//   general   0 for what is no number, 1 for a NaN and its bytes; 2 and the 80 bits of a long double,
//             negative ones complemented.
//   month     its number.
//   version   0 to 4 (empty, ".", "..", hidden, others); the name without its suffixes, the name.
//             Of each: what is no digit, a byte each ('~' < the end < a number < letters < the rest);
//             numbers as their length without zeros in front, in one byte with what says that one
//             is there if it is less than 8, and two digits to a byte.
//   random    a hash; the text.
//
// Where a line has no more text than the key begins with, the key is the empty text.

namespace penstock::record {
namespace {

constexpr std::array<bool, 256> make_blanks() {
  std::array<bool, 256> blanks{};
  blanks[' '] = blanks['\t'] = blanks['\n'] = true;
  return blanks;
}
constexpr auto blanks = make_blanks();

bool is_blank(char c) {
  return blanks[static_cast<unsigned char>(c)];
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
char upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}
bool is_printable(char c) {
  return c >= 0x20 && c < 0x7f;
}

void put(std::string& to, unsigned byte) {
  to.push_back(static_cast<char>(byte));
}

void complement(std::string& text, size_t from) {
  for (size_t i = from; i < text.size(); ++i) text[i] = static_cast<char>(~text[i]);
}

size_t skip_blanks(std::string_view text, size_t at) {
  while (at < text.size() && is_blank(text[at])) ++at;
  return at;
}

// ---- Fields.

class Fields {
 public:
  Fields(std::string_view line, std::optional<char> separator)
      : line_(line), separator_(separator) {}

  // Behind `fields` fields and the separators that end them.
  size_t start_of(size_t fields) const {
    size_t at = 0;
    for (; fields > 0 && at < line_.size(); --fields) {
      at = end_of_field(at);
      if (separator_ && at < line_.size()) ++at;
    }
    return at;
  }
  // Behind `fields` fields, before the separator that ends the last.
  size_t end_of(size_t fields) const {
    size_t at = 0;
    for (; fields > 0 && at < line_.size(); --fields) {
      at = end_of_field(at);
      if (separator_ && at < line_.size() && fields > 1) ++at;
    }
    return at;
  }

 private:
  size_t end_of_field(size_t at) const {
    if (separator_) {
      const void* found = std::memchr(line_.data() + at, *separator_, line_.size() - at);
      return found == nullptr ? line_.size()
                              : static_cast<size_t>(static_cast<const char*>(found) - line_.data());
    }
    at = skip_blanks(line_, at);
    while (at < line_.size() && !is_blank(line_[at])) ++at;
    return at;
  }

  std::string_view line_;
  std::optional<char> separator_;
};

size_t forward(std::string_view line, size_t at, size_t characters) {
  return at + std::min(characters, line.size() - at);
}

std::string_view text_of(const TextKey& key, std::string_view line, std::optional<char> separator) {
  const Fields fields(line, separator);
  size_t begin = fields.start_of(key.start_field);
  if (key.skips_blanks_at_start) begin = skip_blanks(line, begin);
  begin = forward(line, begin, key.start_character);
  size_t end = line.size();
  if (key.end_field != TextKey::line_end) {
    if (key.end_characters == 0) {
      end = fields.end_of(key.end_field + 1);
    } else {
      end = fields.start_of(key.end_field);
      if (key.skips_blanks_at_end) end = skip_blanks(line, end);
      end = forward(line, end, key.end_characters);
    }
  }
  return line.substr(begin, std::max(begin, end) - begin);
}

// ---- Orders.

void append_bytes(std::string_view text, std::string& to) {
  while (!text.empty()) {
    const size_t plain = std::min(text.find('\0'), text.size());
    to.append(text.substr(0, plain));
    text.remove_prefix(plain);
    if (text.empty()) break;
    to.append("\0\2", 2);
    text.remove_prefix(1);
  }
  to.append("\0\1", 2);
}

// A number as written: its sign, and its digits without the zeros in front and at the end.
struct Number {
  bool negative = false;
  size_t digits_before_point = 0;
  std::string_view whole;     // digits before the point, without zeros in front
  std::string_view fraction;  // digits behind it, without zeros at the end
  size_t end = 0;             // where it ends in the text

  bool is_zero() const { return whole.empty() && fraction.empty(); }
};

Number number_in(std::string_view text) {
  Number number;
  size_t at = skip_blanks(text, 0);
  if (at < text.size() && text[at] == '-') {
    number.negative = true;
    ++at;
  }
  while (at < text.size() && text[at] == '0') ++at;
  const size_t begin = at;
  while (at < text.size() && is_digit(text[at])) ++at;
  number.whole = text.substr(begin, at - begin);
  number.end = at;
  if (at < text.size() && text[at] == '.') {
    const size_t point = ++at;
    while (at < text.size() && is_digit(text[at])) ++at;
    number.fraction = text.substr(point, at - point);
    number.end = at;
    while (number.fraction.ends_with('0')) number.fraction.remove_suffix(1);
  }
  return number;
}

// How long a number is, so that longer ones come later.
void append_length(size_t length, unsigned first, unsigned short_max, std::string& to) {
  if (length < short_max) return put(to, first + static_cast<unsigned>(length));
  const unsigned bytes = (static_cast<unsigned>(std::bit_width(length)) + 7) / 8;
  put(to, first + short_max + bytes);
  for (unsigned byte = bytes; byte-- > 0;) put(to, static_cast<unsigned>(length >> (8 * byte)));
}

void append_number(const Number& number, std::string& to) {
  constexpr unsigned zero = 0x80;
  constexpr unsigned short_max = 100;
  if (number.is_zero()) return put(to, zero);
  const size_t from = to.size();
  append_length(number.whole.size(), zero + 1, short_max, to);
  std::string_view whole = number.whole;
  if (number.fraction.empty()) {
    while (whole.ends_with('0')) whole.remove_suffix(1);
  }
  unsigned pair = 0;
  bool half = false;
  for (const std::string_view digits : {whole, number.fraction}) {
    for (const char digit : digits) {
      const auto value = static_cast<unsigned>(digit - '0');
      if (half) put(to, 1 + 10 * pair + value);
      pair = value;
      half = !half;
    }
  }
  if (half) put(to, 1 + 10 * pair);
  put(to, 0);
  if (number.negative) complement(to, from);
}

void append_human(std::string_view text, std::string& to) {
  constexpr std::string_view suffixes = "KMGTPEZY";
  const Number number = number_in(text);
  int power = 0;
  if (!number.is_zero() && number.end < text.size()) {
    const char suffix = text[number.end] == 'k' ? 'K' : text[number.end];
    if (const size_t found = suffixes.find(suffix); found != std::string_view::npos && suffix != 0)
      power = static_cast<int>(found) + 1;
  }
  put(to, static_cast<unsigned>(0x80 + (number.negative ? -power : power)));
  append_number(number, to);
}

void append_general(std::string_view text, std::string& to) {
  constexpr unsigned none = 0;
  constexpr unsigned nan = 1;
  constexpr unsigned real = 2;
  thread_local std::string copy;  // ends with a NUL
  copy.assign(text);
  char* end = nullptr;
  long double value = std::strtold(copy.c_str(), &end);
  if (end == copy.c_str()) return put(to, none);
  if (std::isnan(value)) {
    // As the bytes of its memory; of the sixteen that x86 has for it, ten mean something.
    constexpr size_t bytes = std::numeric_limits<long double>::digits == 64 ? 10 : sizeof value;
    put(to, nan);
    to.append(reinterpret_cast<const char*>(&value), bytes);
    return;
  }
  put(to, real);
  if (value == 0) value = 0;  // no -0
  const bool negative = std::signbit(value);
  int exponent = 0;
  // The mantissa as 64 bits, the highest of which is set but for zero; exact with the 64 bits that
  // x86 has, rounded with more.
  const long double mantissa = std::frexp(negative ? -value : value, &exponent);
  constexpr int bias = 1 << 15;
  const bool infinite = std::isinf(value);
  const uint64_t bits = infinite ? ~uint64_t{0} : static_cast<uint64_t>(std::ldexp(mantissa, 64));
  const int place = value == 0 ? 0 : infinite ? 0xfffe : exponent + bias;
  const size_t from = to.size();
  put(to, 0x80);  // above all complements
  put(to, static_cast<unsigned>(place) >> 8);
  put(to, static_cast<unsigned>(place) & 0xff);
  for (int shift = 56; shift >= 0; shift -= 8) put(to, static_cast<unsigned>(bits >> shift) & 0xff);
  if (negative) complement(to, from);
}

unsigned month_in(std::string_view text) {
  constexpr std::string_view names = "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC";
  text.remove_prefix(skip_blanks(text, 0));
  if (text.size() < 3) return 0;
  const std::array<char, 3> name = {upper(text[0]), upper(text[1]), upper(text[2])};
  for (unsigned month = 0; month < 12; ++month) {
    if (std::memcmp(name.data(), names.data() + 3 * month, 3) == 0) return month + 1;
  }
  return 0;
}

// The bytes of a name with versions: '~', the end, a number (of 0 to 7 digits, or more), letters, the
// rest: all 256.
constexpr unsigned version_tilde = 0;
constexpr unsigned version_end = 1;
constexpr unsigned version_number = 2;
constexpr unsigned version_digits_short = 8;

unsigned version_code(char c) {
  constexpr unsigned letters = 52;
  if (c == '~') return version_tilde;
  const unsigned first = version_number + version_digits_short + 1;
  if (c >= 'A' && c <= 'Z') return first + static_cast<unsigned>(c - 'A');
  if (c >= 'a' && c <= 'z') return first + letters / 2 + static_cast<unsigned>(c - 'a');
  // The rest in their order, those before it counted that are letters, digits or '~'.
  const auto byte = static_cast<unsigned char>(c);
  const unsigned passed = (byte > '9' ? 10u : 0) + (byte > 'Z' ? 26u : 0) + (byte > 'z' ? 26u : 0) +
                          (byte > '~' ? 1u : 0);
  return first + letters + byte - passed;
}

void append_version_part(std::string_view text, std::string& to) {
  size_t at = 0;
  do {
    for (; at < text.size() && !is_digit(text[at]); ++at) put(to, version_code(text[at]));
    // What ends here counts as if a zero followed.
    while (at < text.size() && text[at] == '0') ++at;
    const size_t begin = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    const size_t digits = at - begin;
    put(to, version_number + static_cast<unsigned>(std::min<size_t>(digits, version_digits_short)));
    if (digits >= version_digits_short) append_length(digits, 0, 200, to);
    for (size_t i = begin; i < at; i += 2) {
      const auto tens = static_cast<unsigned>(text[i] - '0');
      const auto ones = i + 1 < at ? static_cast<unsigned>(text[i + 1] - '0') : 0;
      put(to, 10 * tens + ones);
    }
  } while (at < text.size());
  put(to, version_end);
}

// Without suffixes such as ".tar.gz": each a point, a letter or '~', and letters, digits and '~'.
size_t version_prefix(std::string_view name) {
  auto begins = [](char c) { return is_letter(c) || c == '~'; };
  auto goes_on = [&](char c) { return begins(c) || is_digit(c); };
  size_t end = name.size();
  for (;;) {
    size_t at = end;
    while (at > 0 && goes_on(name[at - 1])) --at;
    // In name[at, end) a suffix's word may begin; the point is in front of it.
    if (at == 0 || at == end || name[at - 1] != '.' || !begins(name[at])) return end;
    end = at - 1;
  }
}

void append_version(std::string_view text, std::string& to) {
  const unsigned kind = text.empty()          ? 0
                        : text == "."         ? 1
                        : text == ".."        ? 2
                        : text.front() == '.' ? 3
                                              : 4;
  put(to, kind);
  if (kind < 3) return;
  append_version_part(text.substr(0, version_prefix(text)), to);
  append_version_part(text, to);
}

void append_random(std::string_view text, uint64_t seed, std::string& to) {
  const uint64_t hash =
      mix64(seed ^ hash_bytes(reinterpret_cast<const std::byte*>(text.data()), text.size()));
  for (int shift = 56; shift >= 0; shift -= 8) put(to, static_cast<unsigned>(hash >> shift) & 0xff);
  append_bytes(text, to);
}

}  // namespace

void TextOrder::append_key(const TextKey& key, std::string_view text, bool last,
                           std::string& to) const {
  thread_local std::string changed;
  if (key.only_letters || key.only_printable || key.ignores_case) {
    changed.clear();
    for (const char c : text) {
      if (key.only_letters && !is_letter(c) && !is_digit(c) && !is_blank(c)) continue;
      if (key.only_printable && !is_printable(c)) continue;
      changed.push_back(key.ignores_case ? upper(c) : c);
    }
    text = changed;
  }
  const size_t from = to.size();
  switch (key.compare) {
    case TextCompare::bytes:
      if (last && !key.reverse) {
        to.append(text);
      } else {
        append_bytes(text, to);
      }
      break;
    case TextCompare::numeric:
      append_number(number_in(text), to);
      break;
    case TextCompare::general:
      append_general(text, to);
      break;
    case TextCompare::human:
      append_human(text, to);
      break;
    case TextCompare::month:
      put(to, month_in(text));
      break;
    case TextCompare::version:
      append_version(text, to);
      break;
    case TextCompare::random:
      append_random(text, random_seed_, to);
      break;
  }
  if (key.reverse) complement(to, from);
}

void TextOrder::append(std::string_view line, std::string& to) const {
  const bool whole_line = keys_.empty() || is_total();
  thread_local std::string unquoted;
  for (const TextKey& key : keys_) {
    const bool last = !whole_line && &key == &keys_.back();
    const std::string_view text =
        csv_ ? field_of_row(line, separator_.value_or(','), key.start_field, unquoted)
             : text_of(key, line, separator_);
    append_key(key, text, last, to);
  }
  if (!whole_line) return;
  if (!reverse_) {
    to.append(line);
    return;
  }
  const size_t from = to.size();
  append_bytes(line, to);
  complement(to, from);
}

// ---- What a command line says.

namespace {

// A key as it is written: how it compares may have been said twice.
struct Written {
  TextKey key;
  unsigned compares = 0;  // a bit for each TextCompare but bytes

  bool orders_nothing() const {
    return compares == 0 && !key.only_letters && !key.only_printable && !key.ignores_case &&
           !key.skips_blanks_at_start && !key.skips_blanks_at_end;
  }
};

constexpr unsigned bit_of(TextCompare compare) {
  return 1u << static_cast<unsigned>(compare);
}

// Takes the letters that are orders; -b of a key's start skips blanks there, of its end there.
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

// False: its orders exclude each other.
bool settle(Written& written) {
  constexpr unsigned of_texts = bit_of(TextCompare::random) | bit_of(TextCompare::version);
  TextKey& key = written.key;
  if (written.compares == 0) return true;
  const bool leaves_out = key.only_letters || key.only_printable;
  const bool is_of_texts = (written.compares & ~of_texts) == 0;
  if (!is_of_texts && (leaves_out || !std::has_single_bit(written.compares))) return false;
  // Of -R and -V together -R counts, as in GNU sort.
  if ((written.compares & bit_of(TextCompare::random)) != 0)
    written.compares = bit_of(TextCompare::random);
  key.compare = static_cast<TextCompare>(std::countr_zero(written.compares));
  return true;
}

// A count; too large a one is as good as the greatest.
bool read_count(std::string_view& text, size_t& count) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (end == text.data()) return false;
  if (error == std::errc::result_out_of_range) count = TextKey::line_end;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

std::unexpected<Error> bad_key(std::string_view spec, std::string_view why) {
  return misuse("sort by a key that " + std::string(why), "-k " + std::string(spec),
                "-k FIELD[.CHARACTER][bdfghiMnRrV][,FIELD[.CHARACTER][bdfghiMnRrV]]");
}

std::string names_of(const std::vector<std::string>& header) {
  std::string names;
  for (const std::string& column : header) names += (names.empty() ? "" : ", ") + column;
  return names;
}

// The column that the header calls so, from 0 on. `option` and `hint`: for the error where it has two.
Result<std::optional<size_t>> named_column(std::string_view name,
                                           const std::vector<std::string>& header,
                                           const std::string& option, const char* hint) {
  const auto place = std::ranges::find(header, name);
  if (place == header.end()) return std::nullopt;
  if (std::find(place + 1, header.end(), name) != header.end())
    return misuse("choose between columns of the same name", option, hint);
  return static_cast<size_t>(place - header.begin());
}

// "2": from 0 on.
std::optional<size_t> numbered_column(std::string_view name) {
  size_t number = 0;
  if (read_count(name, number) && name.empty() && number > 0) return number - 1;
  return {};
}

// "price", "price:nr", "price:n:r": a column, and letters behind colons. (A column whose own name ends
// like that is found first.)
Result<Written> read_column(std::string_view spec, const std::vector<std::string>& header) {
  Written written;
  TextKey& key = written.key;
  std::string_view name = spec;
  for (;;) {
    const auto column =
        named_column(name, header, "--key " + std::string(spec),
                     "other names in the header; or no --header, and the column's number");
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
    key.start_field = *column;
    return written;
  }
  return misuse("find this column", "--key " + std::string(spec),
                header.empty()
                    ? "a number from 1 on, and letters behind a colon, as in --key 2:n; a "
                      "name with --header"
                    : "one of " + names_of(header) + ", or a number");
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

std::string name_of(const TextOptions& options) {
  std::string name = "letters " + options.letters;
  for (const std::string& key : options.keys) name += " key " + key;
  if (options.separator) name += " separator " + std::to_string(*options.separator);
  if (options.stable) name += " stable";
  if (options.unique) name += " unique";
  if (options.csv) name += " csv";
  if (options.random_seed != 0) name += " seed " + std::to_string(options.random_seed);
  return name;
}

}  // namespace

TextOrder::TextOrder(const TextOptions& options, bool reverse)
    : KeyOrder(name_of(options), !options.stable && !options.unique),
      separator_(options.separator),
      csv_(options.csv),
      reverse_(reverse),
      random_seed_(options.random_seed) {}

std::vector<std::string> TextOrder::texts(std::string_view line) const {
  std::vector<std::string> texts;
  std::string unquoted;
  for (const TextKey& key : keys_) {
    texts.emplace_back(csv_
                           ? field_of_row(line, separator_.value_or(','), key.start_field, unquoted)
                           : text_of(key, line, separator_));
  }
  if (texts.empty()) texts.emplace_back(line);
  return texts;
}

Result<size_t> column_of(std::string_view name, const std::vector<std::string>& header,
                         const std::string& option) {
  const auto named = named_column(name, header, option, "the column's number");
  if (!named) return std::unexpected(named.error());
  if (*named) return **named;
  if (const auto column = numbered_column(name)) return *column;
  return misuse("find this column", option,
                header.empty() ? "a number from 1 on; with --csv --header a name"
                               : "one of " + names_of(header) + ", or a number");
}

std::vector<size_t> TextOrder::fields() const {
  std::vector<size_t> fields;
  for (const TextKey& key : keys_) fields.push_back(key.start_field);
  return fields;
}

Result<std::shared_ptr<const TextOrder>> TextOrder::make(const TextOptions& options) {
  Written whole;
  std::string_view letters = options.letters;
  read_letters(letters, whole, true, true);
  const std::shared_ptr<TextOrder> order(new TextOrder(options, whole.key.reverse));
  for (const std::string& spec : options.keys) {
    auto written = options.csv ? read_column(spec, options.header) : read_key(spec);
    if (!written) return std::unexpected(written.error());
    if (written->orders_nothing() && !written->key.reverse) {
      const TextKey place = written->key;
      *written = whole;
      written->key.start_field = place.start_field;
      written->key.start_character = place.start_character;
      written->key.end_field = place.end_field;
      written->key.end_characters = place.end_characters;
    }
    if (!settle(*written)) return bad_key(spec, "has two orders that exclude each other");
    order->keys_.push_back(written->key);
  }
  if (!order->keys_.empty() || whole.orders_nothing()) return order;
  if (!settle(whole)) {
    return misuse("sort by two orders that exclude each other", "-" + options.letters,
                  "one of them, or a -k for each");
  }
  order->keys_.push_back(whole.key);
  return order;
}

}  // namespace penstock::record
