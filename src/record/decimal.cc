#include "record/decimal.h"

#include <algorithm>

namespace penstock::record {
namespace {

std::string_view trimmed(std::string_view text) {
  auto blank = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

constexpr uint64_t few_max = 1'000'000'000'000'000'000;
// As many as a number of 128 bits may have.
constexpr int digits_max = 39;

int digits_of(__int128_t number) {
  __uint128_t rest =
      number < 0 ? -static_cast<__uint128_t>(number) : static_cast<__uint128_t>(number);
  int digits = 0;
  for (; rest >= few_max; rest /= 10) ++digits;
  for (auto few = static_cast<uint64_t>(rest); few != 0; few /= 10) ++digits;
  return digits;
}

// The digits with so many places; false: they are too many.
bool digits_with(const Decimal& number, unsigned places, __int128_t& digits) {
  digits = number.digits;
  for (unsigned place = number.places; place < places; ++place) {
    if (__builtin_mul_overflow(digits, 10, &digits)) return false;
  }
  return true;
}

}  // namespace

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
    if (c < '0' || c > '9') return {};
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
  // What grows beyond all digits is the one farther from zero.
  const int away = digits < 0 ? -1 : 1;
  if (!digits_with(*this, most, left)) return away;
  if (!digits_with(other, most, right)) return -away;
  return left < right ? -1 : left > right;
}

std::string Decimal::text() const {
  std::string text;
  // Of the least number the sign cannot be taken away.
  __int128_t rest = digits;
  do {
    const int digit = static_cast<int>(rest % 10);
    text += static_cast<char>('0' + (digit < 0 ? -digit : digit));
    rest /= 10;
  } while (rest != 0);
  if (text.size() <= places) text.append(places + 1 - text.size(), '0');
  if (digits < 0) text += '-';
  std::ranges::reverse(text);
  if (places > 0) text.insert(text.size() - places, 1, '.');
  return text;
}

DecimalSum::DecimalSum(const Decimal& number)
    : low_(static_cast<__uint128_t>(number.digits)),
      high_(number.digits < 0 ? -1 : 0),
      places_(number.places) {
  if (number.digits != 0)
    whole_digits_ = digits_of(number.digits) - static_cast<int>(number.places);
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

bool DecimalSum::add(const DecimalSum& other) {
  const unsigned places = std::max(places_, other.places_);
  const int whole_digits = std::max(whole_digits_, other.whole_digits_);
  if (whole_digits != of_zero && whole_digits > digits_max - static_cast<int64_t>(places))
    return false;
  DecimalSum more = other;
  more.add_places(places);
  add_places(places);
  low_ += more.low_;
  high_ += more.high_ + (low_ < more.low_ ? 1 : 0);
  whole_digits_ = whole_digits;
  return true;
}

std::optional<Decimal> DecimalSum::total() const {
  const auto digits = static_cast<__int128_t>(low_);
  if (high_ != (digits < 0 ? -1 : 0)) return {};
  return Decimal{digits, places_};
}

}  // namespace penstock::record
