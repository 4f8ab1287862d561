#pragma once

// Results that are a quotient or a root of exact sums, rounded once: means, standard deviations,
// quantiles.
//
// A result has as many places behind the point as the numbers of which it is made, at least. It is
// exact if that takes at most 38 digits, else it is rounded, half to even, to 17 significant ones.
// (A root is always rounded.)

#include <cstdint>
#include <optional>

#include "items/decimal.h"
#include "items/wide.h"

namespace penstock::items {

// A sum of squares of decimal numbers, with twice their places behind the point. A DecimalSum of
// the same numbers bounds their digits. Trivially copyable.
class SquareSum {
 public:
  SquareSum() = default;
  explicit SquareSum(const Decimal& number)
      : sum_(Wide(number.digits) * Wide(number.digits)), places_(number.places) {}
  void add(const SquareSum& other);
  // The sum with twice so many places. REQUIRES: these are as many as those of the numbers.
  Wide with_places(unsigned places) const {
    return sum_.times_power_of_ten(2 * (places - places_));
  }

 private:
  Wide sum_;
  unsigned places_ = 0;  // behind the points of the numbers
};

// Returns sum / 10^places / divisor, or empty if that has too many digits. REQUIRES: the divisor is
// not 0.
std::optional<Decimal> quotient(const Wide& sum, uint64_t divisor, unsigned places);

// Returns the standard deviation of a sample of `count` numbers, or empty if it has too many
// digits. REQUIRES: count > 1.
std::optional<Decimal> sample_deviation(const DecimalSum& sum, const SquareSum& squares,
                                        uint64_t count);

// A part of the numbers in their order: the number at rank (count - 1) * fraction, counted from 0,
// or between the two at the ranks around it, in proportion.
struct QuantileRank {
  // REQUIRES: count > 0; fraction is within [0, 1] and has at most `fraction_places_max` places.
  QuantileRank(uint64_t count, const Decimal& fraction);
  // Returns the quantile by the numbers at `rank` and at the next one, without their points, or
  // empty if it has too many digits.
  std::optional<Decimal> between(const Wide& at_rank, const Wide& at_next, unsigned places) const;

  static constexpr unsigned fraction_places_max = 18;
  uint64_t rank = 0;
  uint64_t part = 0;  // share of `whole`, towards the next rank
  uint64_t whole = 1;
};

}  // namespace penstock::items
