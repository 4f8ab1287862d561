#include "items/quotient.h"

#include <algorithm>
#include <numeric>

namespace penstock::items {
namespace {

constexpr unsigned significant_digits = 17;
constexpr unsigned exact_digits_max = 38;

// Removes zeros at the end that are more than `places_min` places. Returns empty if there are too
// many digits.
std::optional<Decimal> without_zeros(const Wide& digits, unsigned places, unsigned places_min,
                                     bool negative) {
  if (digits.bits() > 127) return {};
  auto number = static_cast<__int128_t>(digits.low());
  for (; places > places_min && number % 10 == 0; --places) number /= 10;
  return Decimal{negative ? -number : number, places};
}

// The places that make a quotient by `divisor`, which has no factor in common with the dividend,
// whole; or too many.
unsigned places_of_exact(uint64_t divisor) {
  unsigned twos = 0;
  unsigned fives = 0;
  for (; divisor % 2 == 0; divisor /= 2) ++twos;
  for (; divisor % 5 == 0; divisor /= 5) ++fives;
  return divisor == 1 ? std::max(twos, fives) : exact_digits_max + 1;
}

}  // namespace

void SquareSum::add(const SquareSum& other) {
  const unsigned places = std::max(places_, other.places_);
  sum_ = with_places(places) + other.with_places(places);
  places_ = places;
}

std::optional<Decimal> quotient(const Wide& sum, uint64_t divisor, unsigned places) {
  const bool negative = sum.negative();
  const Wide dividend = negative ? -sum : sum;
  Wide whole = dividend;
  const uint64_t rest = whole.divide(divisor);
  if (rest == 0) return without_zeros(whole, places, places, negative);
  const unsigned exact = places_of_exact(divisor / std::gcd(rest, divisor));
  unsigned more = exact;
  if (exact + whole.digits() > exact_digits_max) {
    more = 0;
    for (unsigned digits = whole.digits(); digits < significant_digits;) {
      more += significant_digits - digits;
      whole = dividend.times_power_of_ten(more);
      whole.divide(divisor);
      digits = whole.digits();
    }
  }
  whole = dividend.times_power_of_ten(more);
  const uint64_t left = whole.divide(divisor);
  const __uint128_t twice = __uint128_t{left} * 2;
  if (twice > divisor || (twice == divisor && whole.odd())) whole = whole + Wide(1);
  return without_zeros(whole, places + more, places, negative);
}

std::optional<Decimal> sample_deviation(const DecimalSum& sum, const SquareSum& squares,
                                        uint64_t count) {
  // The variance is `above / below`, with twice the places of the numbers.
  const unsigned places = sum.places();
  const Wide total = sum.wide();
  const auto number = [](uint64_t whole) { return Wide(static_cast<__int128_t>(whole)); };
  const Wide above = number(count) * squares.with_places(places) - total * total;
  const Wide below = number(count) * number(count - 1);
  if (above.is_zero()) return Decimal{0, places};
  unsigned more = 0;
  Wide root;
  for (;;) {
    Wide square = above.times_power_of_ten(2 * more);
    square.divide(count);
    square.divide(count - 1);
    root = square.root();
    const unsigned digits = root.digits();
    if (digits >= significant_digits) break;
    more += significant_digits - digits;
  }
  // Up if root + 1/2 is less than the root of the quotient.
  const Wide twice = root + root + Wide(1);
  if (below * twice * twice < above.times_power_of_ten(2 * more) * Wide(4)) root = root + Wide(1);
  return without_zeros(root, places + more, places, false);
}

QuantileRank::QuantileRank(uint64_t count, const Decimal& fraction) {
  for (unsigned place = 0; place < fraction.places; ++place) whole *= 10;
  const __uint128_t at = __uint128_t{count - 1} * static_cast<uint64_t>(fraction.digits);
  rank = static_cast<uint64_t>(at / whole);
  part = static_cast<uint64_t>(at % whole);
}

std::optional<Decimal> QuantileRank::between(const Wide& at_rank, const Wide& at_next,
                                             unsigned places) const {
  const auto number = [](uint64_t of) { return Wide(static_cast<__int128_t>(of)); };
  return quotient(at_rank * number(whole - part) + at_next * number(part), whole, places);
}

}  // namespace penstock::items
