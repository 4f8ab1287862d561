#include "items/keys/text/key_bytes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "base/thread_object.h"
#include "items/hash.h"
#include "items/keys/text/key_place.h"
#include "items/keys/values/formats.h"
#include "items/keys/values/values.h"

// Each order becomes bytes. The bytes of a key are never the beginning of another key's bytes, so
// that the next key can follow at once, and the complement of all bytes is the reverse order.
//
//   bytes     the text; NUL as 0 2, and 0 1 at the end. (A last key that is not reversed needs
//             neither.) -d, -f and -i leave out and change bytes first. In a locale that collates: what strxfrm() makes
//             of the text, in the same way.
//   numeric   0x80 is zero. Positive: how many digits stand before the point (0x81 + n; from 100 on
//             0xe5 + the bytes of n, and n), all digits without the zeros at the end, two to a byte
//             (1 + their number), and 0. Negative: the complement of that. (After 66 zeros behind the
//             point, the complement of how many more there are stands in place of these.)
//   human     0x80 + the power of 1024, negative for negative numbers; the number.
//   general   0 for what is no number, 1 for a NaN and its bytes; 2 and the 80 bits of a long double,
//             negative ones complemented.
//   month     its number.
//   version   0 to 4 (empty, ".", "..", hidden, others); the name without its suffixes, the name.
//             Both are written thus: a byte for each character but digits ('~' < the end < a number <
//             letters < the rest); a number as its length without leading zeros (a length below 8
//             shares the byte that says a number is there), and two digits to a byte.
//   random    a hash; the text.
//   others    1 and the value (values/), or 0 and the bytes of a text that is none.
//
// The key is the empty text if the line ends before the key begins.

namespace penstock::items {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
void put(std::string& to, unsigned byte) {
  to.push_back(static_cast<char>(byte));
}

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

// The place of a number in its text. GNU sort skips separators of groups anywhere between digits,
// but reads a suffix only if each of them stands alone between two digits.
struct NumberPlace {
  size_t begin = 0;  // place of its sign or first digit
  size_t digits = 0;
  size_t end = 0;  // not behind `digits` if there is no number
  bool may_have_suffix = false;
};

NumberPlace number_place(std::string_view text, char point, char group) {
  NumberPlace place;
  size_t at = place.begin = skip_blanks(text, 0);
  if (at < text.size() && text[at] == '-') ++at;
  place.digits = place.end = at;
  auto digit_at = [&](size_t i) { return i < text.size() && is_digit(text[i]); };
  while (digit_at(at)) ++at;
  if (group != '\0' && at > place.digits) {
    while (at < text.size() && text[at] == group && digit_at(at + 1)) {
      ++at;
      while (digit_at(at)) ++at;
    }
    if (at < text.size() && text[at] == group) {
      place.end = at;
      return place;
    }
  }
  if (at < text.size() && text[at] == point && (at > place.digits || digit_at(at + 1))) {
    ++at;
    while (digit_at(at)) ++at;
  }
  place.end = at;
  place.may_have_suffix = at > place.digits;
  return place;
}

// Removes the separators of groups, which the other functions do not know.
std::string_view without_groups(std::string_view text, char point, char group) {
  static constinit thread_local ThreadObject<std::string> room_of_thread;
  std::string& room = room_of_thread.get();
  room.clear();
  size_t at = skip_blanks(text, 0);
  if (at < text.size() && text[at] == '-') {
    room += '-';
    ++at;
  }
  for (; at < text.size() && (is_digit(text[at]) || text[at] == group); ++at)
    if (text[at] != group) room += text[at];
  // Another number may begin behind this one.
  if (at < text.size() && text[at] == point) room += text.substr(at);
  return room;
}

}  // namespace

void append_length(size_t length, unsigned first, unsigned short_max, std::string& to) {
  if (length < short_max) return put(to, first + static_cast<unsigned>(length));
  const unsigned bytes = (static_cast<unsigned>(std::bit_width(length)) + 7) / 8;
  put(to, first + short_max + bytes);
  for (unsigned byte = bytes; byte-- > 0;) put(to, static_cast<unsigned>(length >> (8 * byte)));
}

void append_pairs(std::string_view digits, std::string& to) {
  for (size_t i = 0; i < digits.size(); i += 2) {
    const auto tens = static_cast<unsigned>(digits[i] - '0');
    const auto ones = i + 1 < digits.size() ? static_cast<unsigned>(digits[i + 1] - '0') : 0;
    put(to, 10 * tens + ones);
  }
}

Number number_in(std::string_view text, const Locale* locale) {
  const char point = locale == nullptr ? '.' : locale->point();
  if (locale != nullptr && locale->group() != '\0')
    text = without_groups(text, point, locale->group());
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
  if (at < text.size() && text[at] == point) {
    const size_t fraction = ++at;
    while (at < text.size() && is_digit(text[at])) ++at;
    number.fraction = text.substr(fraction, at - fraction);
    while (number.fraction.ends_with('0')) number.fraction.remove_suffix(1);
  }
  // Separators of groups may have hidden the rest.
  number.is_all = at == text.size() && (locale == nullptr || locale->group() == '\0');
  return number;
}

void append_number(const Number& number, std::string& to) {
  constexpr unsigned zero = 0x80;
  constexpr unsigned short_max = 100;
  constexpr uint64_t zeros_max = 66;
  if (number.is_zero()) return put(to, zero);
  std::string_view whole = number.whole, fraction = number.fraction;
  int64_t point = static_cast<int64_t>(whole.size()) + number.exponent;
  if (whole.empty()) {
    const size_t zeros = fraction.find_first_not_of('0');
    fraction.remove_prefix(zeros);
    point -= static_cast<int64_t>(zeros);
  } else if (fraction.empty()) {
    while (whole.ends_with('0')) whole.remove_suffix(1);
  }
  const size_t from = to.size();
  append_length(static_cast<size_t>(std::max<int64_t>(point, 0)), zero + 1, short_max, to);
  const auto zeros = static_cast<uint64_t>(std::max<int64_t>(-point, 0));
  unsigned pair = 0;
  bool half = false;
  const auto append_digit = [&](char digit) {
    const auto value = static_cast<unsigned>(digit - '0');
    if (half) put(to, 1 + 10 * pair + value);
    pair = value;
    half = !half;
  };
  for (uint64_t i = 0; i < std::min(zeros, zeros_max); ++i) append_digit('0');
  if (zeros >= zeros_max) {
    const size_t length = to.size();
    append_length(zeros - zeros_max, 0, 200, to);
    complement(to, length);
  }
  for (const std::string_view digits : {whole, fraction}) {
    for (const char digit : digits) append_digit(digit);
  }
  if (half) put(to, 1 + 10 * pair);
  put(to, 0);
  if (number.negative) complement(to, from);
}

namespace {

constexpr std::string_view suffixes = "KMGTPEZY";

// Returns the power of 1024 that the suffix behind the number stands for, or 0.
int power_at(std::string_view text, size_t at) {
  if (at >= text.size()) return 0;
  const size_t found = suffixes.find(text[at] == 'k' ? 'K' : text[at]);
  return found == suffixes.npos ? 0 : static_cast<int>(found) + 1;
}

bool append_human(std::string_view text, const Locale* locale, std::string& to) {
  const Number number = number_in(text, locale);
  int power = 0;
  if (!number.is_zero()) {
    const NumberPlace place = locale == nullptr
                                  ? number_place(text, '.', '\0')
                                  : number_place(text, locale->point(), locale->group());
    if (place.may_have_suffix) power = power_at(text, place.end);
  }
  put(to, static_cast<unsigned>(0x80 + (number.negative ? -power : power)));
  append_number(number, to);
  return number.is_all;
}

long double read_general(const char* text, const Locale* locale, char** end) {
  return locale == nullptr ? std::strtold(text, end) : locale->number(text, end);
}

// Returns whether the number is all of the text.
bool append_general(std::string_view text, const Locale* locale, std::string& to) {
  constexpr unsigned none = 0;
  constexpr unsigned nan = 1;
  constexpr unsigned real = 2;
  static constinit thread_local ThreadObject<std::string> copy_of_thread;
  std::string& copy = copy_of_thread.get();  // ends with a NUL
  copy.assign(text);
  char* end = nullptr;
  long double value = read_general(copy.c_str(), locale, &end);
  if (end == copy.c_str()) {
    put(to, none);
    return false;
  }
  const bool is_all = end == copy.c_str() + copy.size();
  if (std::isnan(value)) {
    // NaNs are ordered by the bytes of their memory; ten of the sixteen that x86 uses have a
    // meaning.
    constexpr size_t bytes = std::numeric_limits<long double>::digits == 64 ? 10 : sizeof value;
    put(to, nan);
    to.append(reinterpret_cast<const char*>(&value), bytes);
    return is_all;
  }
  put(to, real);
  if (value == 0) value = 0;  // no -0
  const bool negative = std::signbit(value);
  int exponent = 0;
  // The mantissa has 64 bits, the highest of which is set unless the number is zero. It is exact on
  // x86, and rounded if a long double has more bits.
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
  return is_all;
}

// A month and the end of its name in the text.
struct MonthPlace {
  unsigned month = 0;  // 1-based; 0 if there is none
  size_t begin = 0;
  size_t end = 0;
};

MonthPlace month_in(std::string_view text, const Locale* locale) {
  MonthPlace place;
  place.begin = place.end = skip_blanks(text, 0);
  const ByteClasses& classes = classes_of(locale);
  unsigned month = 0;
  for (const std::string& name : months_of(locale)) {
    ++month;
    if (text.size() - place.begin < name.size()) continue;
    size_t same = 0;
    while (same < name.size() &&
           classes.upper[static_cast<unsigned char>(text[place.begin + same])] == name[same])
      ++same;
    // The longest name wins if one begins with another.
    if (same < name.size() || place.begin + same <= place.end) continue;
    place.month = month;
    place.end = place.begin + same;
  }
  return place;
}

// The 256 bytes of a name with versions: '~', the end, a number (of 0 to 7 digits, or more),
// letters, the rest.
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
  // The rest keeps its order, without the letters, digits and '~' in front of it.
  const auto byte = static_cast<unsigned char>(c);
  const unsigned passed = (byte > '9' ? 10u : 0) + (byte > 'Z' ? 26u : 0) + (byte > 'z' ? 26u : 0) +
                          (byte > '~' ? 1u : 0);
  return first + letters + byte - passed;
}

void append_version_part(std::string_view text, std::string& to) {
  size_t at = 0;
  do {
    for (; at < text.size() && !is_digit(text[at]); ++at) put(to, version_code(text[at]));
    // A name that ends here compares as if a zero followed.
    while (at < text.size() && text[at] == '0') ++at;
    const size_t begin = at;
    while (at < text.size() && is_digit(text[at])) ++at;
    const size_t digits = at - begin;
    put(to, version_number + static_cast<unsigned>(std::min<size_t>(digits, version_digits_short)));
    if (digits >= version_digits_short) append_length(digits, 0, 200, to);
    append_pairs(text.substr(begin, digits), to);
  } while (at < text.size());
  put(to, version_end);
}

// Removes suffixes such as ".tar.gz": each is a point, a letter or '~', then letters, digits and
// '~'.
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

void append_random(std::string_view text, const KeyBytes& how, std::string& to) {
  static constinit thread_local ThreadObject<std::string> collated_of_thread;
  std::string& collated = collated_of_thread.get();
  if (how.locale != nullptr && how.locale->collates()) {
    collated.clear();
    how.locale->append_collated(text, collated);
    text = collated;
  }
  const uint64_t hash = mix64(
      how.random_seed ^ hash_bytes(reinterpret_cast<const std::byte*>(text.data()), text.size()));
  for (int shift = 56; shift >= 0; shift -= 8) put(to, static_cast<unsigned>(hash >> shift) & 0xff);
  append_bytes(text, to);
}

bool append_value(TextCompare compare, std::string_view text, const KeyBytes& how,
                  std::string& to) {
  switch (compare) {
    case TextCompare::time:
      return how.formats->times.append(text, how.locale, to);
    case TextCompare::number:
      return how.formats->numbers->append(text, to);
    case TextCompare::address:
      return append_address(text, to);
    case TextCompare::natural:
      return append_natural(text, to);
    case TextCompare::semver:
      return append_semver(text, to);
    case TextCompare::hexadecimal:
      return append_hexadecimal(text, to);
    default:
      return false;
  }
}

}  // namespace

void complement(std::string& text, size_t from) {
  for (size_t i = from; i < text.size(); ++i) text[i] = static_cast<char>(~text[i]);
}

void append_text(std::string_view text, const Locale* locale, bool last, std::string& to) {
  if (locale == nullptr || !locale->collates()) {
    if (last) {
      to.append(text);
    } else {
      append_bytes(text, to);
    }
    return;
  }
  if (last) return locale->append_collated(text, to);
  static constinit thread_local ThreadObject<std::string> collated_of_thread;
  std::string& collated = collated_of_thread.get();
  collated.clear();
  locale->append_collated(text, collated);
  append_bytes(collated, to);
}

bool append_key(const TextKey& key, std::string_view text, const KeyBytes& how, std::string& to) {
  static constinit thread_local ThreadObject<std::string> changed_of_thread;
  std::string& changed = changed_of_thread.get();
  if (key.only_letters || key.only_printable || key.ignores_case) {
    changed.clear();
    const ByteClasses& classes = classes_of(how.locale);
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (key.only_letters && !classes.counts[byte]) continue;
      if (key.only_printable && !classes.prints[byte]) continue;
      changed.push_back(key.ignores_case ? classes.upper[byte] : c);
    }
    text = changed;
  }
  const size_t from = to.size();
  bool is_read = true;
  switch (key.compare) {
    case TextCompare::bytes:
      append_text(text, how.locale, how.last && !key.reverse, to);
      break;
    case TextCompare::numeric: {
      const Number number = number_in(text, how.locale);
      append_number(number, to);
      is_read = text.empty() || (number.is_all && is_digit(text.back()));
      break;
    }
    case TextCompare::general:
      is_read = append_general(text, how.locale, to) || text.empty();
      break;
    case TextCompare::human:
      is_read = append_human(text, how.locale, to) && (text.empty() || is_digit(text.back()));
      break;
    case TextCompare::month:
      put(to, month_in(text, how.locale).month);
      break;
    case TextCompare::version:
      append_version(text, to);
      break;
    case TextCompare::random:
      append_random(text, how, to);
      break;
    default:
      put(to, 1);
      if (append_value(key.compare, text, how, to)) break;
      to.back() = '\0';
      append_bytes(text, to);
      is_read = text.empty();
  }
  if (key.reverse) complement(to, from);
  return is_read;
}

bool is_value(const TextKey& key, std::string_view text, const KeyBytes& how) {
  std::string ignored;
  return append_value(key.compare, text, how, ignored);
}

// The part is the one that GNU sort --debug underlines.
std::string_view compared_part(const TextKey& key, std::string_view text, const Locale* locale) {
  auto part = [&](size_t begin, size_t end) { return text.substr(begin, end - begin); };
  const char point = locale == nullptr ? '.' : locale->point();
  const char group = locale == nullptr ? '\0' : locale->group();
  switch (key.compare) {
    case TextCompare::numeric:
    case TextCompare::human: {
      const NumberPlace place = number_place(text, point, group);
      if (place.end == place.digits) return part(place.begin, place.begin);
      const bool suffix = key.compare == TextCompare::human && place.may_have_suffix &&
                          power_at(text, place.end) > 0;
      return part(place.begin, place.end + (suffix ? 1 : 0));
    }
    case TextCompare::general: {
      const size_t begin = skip_blanks(text, 0);
      const std::string copy(text.substr(begin));
      char* end = nullptr;
      (void)read_general(copy.c_str(), locale, &end);
      return part(begin, begin + static_cast<size_t>(end - copy.c_str()));
    }
    case TextCompare::month: {
      const MonthPlace place = month_in(text, locale);
      return part(place.begin, place.end);
    }
    default:
      return text;
  }
}

}  // namespace penstock::items
