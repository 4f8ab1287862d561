#pragma once

// Decimal numbers as text has them, added exactly.

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::record {

// A number, or a sum, of few digits.
struct [[gnu::packed]] NarrowDecimal {
  int64_t digits = 0;
  uint8_t places = 0;
  int8_t whole_digits = 0;  // of sums
};

// Up to 38 digits.
struct Decimal {
  __int128_t digits = 0;  // without the point
  unsigned places = 0;    // behind it

  static Decimal of(const NarrowDecimal& narrow) { return {narrow.digits, narrow.places}; }
  // Empty if the number has too many digits.
  std::optional<NarrowDecimal> narrow() const;

  // Nothing: it is no number such as "7", "-0.50" or " +12. ", or too long a one.
  static std::optional<Decimal> parse(std::string_view text);
  // < 0, 0, > 0.
  int compare(const Decimal& other) const;
  void append_to(std::string& text) const;
};

// A sum of decimal numbers, with as many places behind the point as the number with the most of them has. Neither the
// sum nor whether it has too many digits depends on the order in which numbers and sums are added.
class DecimalSum {
 public:
  DecimalSum() = default;
  explicit DecimalSum(const Decimal& number);
  static DecimalSum of(const NarrowDecimal& narrow);
  // Empty if the sum, or what it is made of, has too many digits.
  std::optional<NarrowDecimal> narrow() const;

  // False, and nothing has changed: one of the numbers has too many digits beside another one's places.
  bool add(const DecimalSum& other);
  // The sum; empty if it has too many digits.
  std::optional<Decimal> total() const;

 private:
  static constexpr int of_zero = std::numeric_limits<int>::min();

  void add_places(unsigned places);

  // high * 2^128 + low, without the point. Invariant: every number that was added, with `places`, has at most
  // `digits_max` (decimal.cc) digits, so that 2^60 of them fit.
  __uint128_t low_ = 0;
  int64_t high_ = 0;
  unsigned places_ = 0;
  int whole_digits_ =
      of_zero;  // of the largest number those before the point; below 0: zeros behind it
};

}  // namespace penstock::record
