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
  for (const char c : text) {
    if (c == '.' && !behind_point) {
      behind_point = true;
      continue;
    }
    if (c < '0' || c > '9' || __builtin_mul_overflow(number.digits, 10, &number.digits) ||
        __builtin_add_overflow(number.digits, c - '0', &number.digits))
      return {};
    any = true;
    number.places += behind_point;
  }
  if (!any) return {};
  if (negative) number.digits = -number.digits;
  return number;
}

bool Decimal::add(const Decimal& other) {
  const unsigned most = std::max(places, other.places);
  __int128_t left = 0;
  __int128_t right = 0;
  if (!digits_with(*this, most, left) || !digits_with(other, most, right)) return false;
  if (__builtin_add_overflow(left, right, &left)) return false;
  digits = left;
  places = most;
  return true;
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

}  // namespace penstock::record
