#include "record/text/key_bytes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "record/hash.h"
#include "record/text/key_place.h"

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

void complement(std::string& text, size_t from) {
  for (size_t i = from; i < text.size(); ++i) text[i] = static_cast<char>(~text[i]);
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

void append_key(const TextKey& key, std::string_view text, const KeyBytes& how, std::string& to) {
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
      if (how.last && !key.reverse) {
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
      append_random(text, how.random_seed, to);
      break;
  }
  if (key.reverse) complement(to, from);
}

}  // namespace penstock::record
