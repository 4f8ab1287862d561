#include "items/decimal.h"

#include <algorithm>
#include <array>
#include <bit>

#include "items/hash.h"
#include "items/keys/text/key_place.h"

namespace penstock::items {
namespace {

std::string_view trimmed(std::string_view text) {
  auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

constexpr uint64_t few_max = 1'000'000'000'000'000'000;

constexpr auto powers_of_ten = [] {
  std::array<uint64_t, 19> powers = {1};
  for (size_t i = 1; i < powers.size(); ++i) powers[i] = 10 * powers[i - 1];
  return powers;
}();

__uint128_t magnitude_of(__int128_t number) {
  return number < 0 ? -static_cast<__uint128_t>(number) : static_cast<__uint128_t>(number);
}

// Scales the digits to so many places. Returns false if they become too many.
bool digits_with(const Decimal& number, unsigned places, __int128_t& digits) {
  digits = number.digits;
  for (unsigned place = number.places; place < places; ++place) {
    if (__builtin_mul_overflow(digits, 10, &digits)) return false;
  }
  return true;
}

// Returns the number of a text of one to eight digits, by all of them at once; empty for others.
std::optional<uint32_t> few_digits(std::string_view text) {
  constexpr size_t most = sizeof(uint64_t);
  constexpr uint64_t zeros = 0x3030303030303030, high_halves = 0xf0f0f0f0f0f0f0f0,
                     sixes = 0x0606060606060606;
  if (text.empty() || text.size() > most) return {};
  const size_t missing = 8 * (most - text.size());
  uint64_t word = load_few(reinterpret_cast<const std::byte*>(text.data()), text.size()) << missing;
  if (missing > 0) word |= zeros >> (64 - missing);
  // A digit keeps its high half, 3, with 6 added.
  if (((word & high_halves) ^ zeros) | (((word + sixes) & high_halves) ^ zeros)) return {};
  word -= zeros;
  word = (word * 10 + (word >> 8)) & 0x00ff00ff00ff00ff;    // pairs
  word = (word * 100 + (word >> 16)) & 0x0000ffff0000ffff;  // fours
  return static_cast<uint32_t>(word * 10'000 + (word >> 32));
}

}  // namespace

int digits_of(__int128_t number) {
  __uint128_t rest = magnitude_of(number);
  int digits = 0;
  for (; rest >= few_max; rest /= 10) ++digits;
  // The bits times log10(2) are the digits, or one less.
  const auto few = static_cast<uint64_t>(rest);
  const auto least = static_cast<unsigned>(std::bit_width(few)) * 1233 >> 12;
  return digits + static_cast<int>(least + (few >= powers_of_ten[least]));
}

std::optional<NarrowDecimal> NarrowDecimal::parse(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  constexpr size_t text_bytes_max = 18;
  if (text.empty() || text.size() > text_bytes_max) return {};
  if (const auto digits = few_digits(text); digits && (*digits == 0 || text[0] != '0')) {
    return NarrowDecimal{.digits = negative ? -int64_t{*digits} : *digits,
                         .whole_digits = *digits == 0 ? of_zero : static_cast<int8_t>(text.size())};
  }
  const char* point = nullptr;
  int64_t digits = 0;
  for (const char& c : text) {
    if (is_digit(c)) {
      digits = 10 * digits + (c - '0');
    } else if (c == '.' && point == nullptr && text.size() > 1) {
      point = &c;
    } else {
      return {};
    }
  }
  NarrowDecimal number{.digits = negative ? -digits : digits, .whole_digits = of_zero};
  if (point != nullptr) number.places = static_cast<uint8_t>(&text.back() - point);
  if (digits != 0) number.whole_digits = static_cast<int8_t>(digits_of(digits) - number.places);
  return number;
}

std::optional<Decimal> Decimal::parse(std::string_view text) {
  text = trimmed(text);
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  Decimal number;
  bool any = false;
  bool behind_point = false;
  uint64_t few = 0;  // the digits, while they are few
  for (const char c : text) {
    if (c == '.' && !behind_point) {
      behind_point = true;
      continue;
    }
    if (!is_digit(c)) return {};
    any = true;
    number.places += behind_point;
    if (few < few_max) {
      number.digits = few = 10 * few + static_cast<uint64_t>(c - '0');
    } else if (__builtin_mul_overflow(number.digits, 10, &number.digits) ||
               __builtin_add_overflow(number.digits, c - '0', &number.digits)) {
      return {};
    }
  }
  if (!any) return {};
  if (negative) number.digits = -number.digits;
  return number;
}

int Decimal::compare(const Decimal& other) const {
  if ((digits < 0) != (other.digits < 0)) return digits < 0 ? -1 : 1;
  const unsigned most = std::max(places, other.places);
  __int128_t left = 0;
  __int128_t right = 0;
  // The number whose digits overflow is the one farther from zero.
  const int away = digits < 0 ? -1 : 1;
  if (!digits_with(*this, most, left)) return away;
  if (!digits_with(other, most, right)) return -away;
  return left < right ? -1 : left > right;
}

void Decimal::append_to(std::string& to) const {
  std::array<char, digits_max> room;
  char* at = room.end();
  __uint128_t rest = magnitude_of(digits);
  for (; rest >= few_max; rest /= 10) *--at = static_cast<char>('0' + static_cast<int>(rest % 10));
  auto few = static_cast<uint64_t>(rest);
  do {
    *--at = static_cast<char>('0' + few % 10);
    few /= 10;
  } while (few != 0);
  const auto written = static_cast<size_t>(room.end() - at);
  if (digits < 0) to += '-';
  if (written <= places) to.append(places + 1 - written, '0');
  to.append(at, written);
  if (places > 0) to.insert(to.size() - places, 1, '.');
}

void DecimalSum::add_places(unsigned places) {
  if (whole_digits_ == of_zero) places_ = places;
  for (; places_ < places; ++places_) {
    // Multiplies each 64-bit word by 10.
    constexpr unsigned half_bits = 64;
    const __uint128_t lower = static_cast<uint64_t>(low_) * __uint128_t{10};
    const __uint128_t upper = (low_ >> half_bits) * 10 + (lower >> half_bits);
    low_ = upper << half_bits | static_cast<uint64_t>(lower);
    high_ = high_ * 10 + static_cast<int64_t>(upper >> half_bits);
  }
}

bool DecimalSum::add_of_other_places(DecimalSum other) {
  const unsigned places = std::max(places_, other.places_);
  const int whole_digits = std::max(whole_digits_, other.whole_digits_);
  if (whole_digits > digits_max - static_cast<int64_t>(places)) return false;
  other.add_places(places);
  add_places(places);
  return add(other);
}

}  // namespace penstock::items
