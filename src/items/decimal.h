#pragma once

// Decimal numbers as text has them, added exactly.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "items/wide.h"

namespace penstock::items {

// Maximum of digits that a number of 128 bits holds.
inline constexpr int digits_max = 39;

// Returns how many digits a number has; zero has none.
int digits_of(__int128_t number);

// A number or sum of few digits: 8 bytes of digits, and one each of the other two.
struct NarrowDecimal {
  int64_t digits = 0;
  uint8_t places = 0;
  int8_t whole_digits = 0;  // digits before the point, in sums

  static constexpr int8_t of_zero =
      std::numeric_limits<int8_t>::min();  // whole_digits of no number but zero
  // Returns empty if the text is no number, or has blanks, a plus or too many digits.
  static std::optional<NarrowDecimal> parse(std::string_view text);

  static constexpr size_t bytes = 10;
  // Copies field by field: a load that spans the stores of several fields waits for all of them.
  static NarrowDecimal at(const char* from) {
    NarrowDecimal narrow{.places = static_cast<uint8_t>(from[8]),
                         .whole_digits = static_cast<int8_t>(from[9])};
    std::memcpy(&narrow.digits, from, sizeof digits);
    return narrow;
  }
  void store(char* to) const {
    std::memcpy(to, &digits, sizeof digits);
    to[8] = static_cast<char>(places);
    to[9] = static_cast<char>(whole_digits);
  }
  // Returns true if the sum is certainly narrow: a few more places make its digits at most 2^14
  // times as large.
  bool can_add(const NarrowDecimal& other) const {
    constexpr unsigned few_places = 4;
    int64_t limit = int64_t{1} << 62;
    if (places != other.places)
      limit = std::max(places, other.places) > few_places ? 0 : limit >> 14;
    return std::max(digits, other.digits) < limit && std::min(digits, other.digits) > -limit;
  }
};

// A number of up to 38 digits.
struct Decimal {
  __int128_t digits = 0;  // without the point
  unsigned places = 0;    // behind it

  static Decimal of(const NarrowDecimal& narrow) { return {narrow.digits, narrow.places}; }
  // Returns empty if the number has too many digits.
  std::optional<NarrowDecimal> narrow() const {
    const auto few = static_cast<int64_t>(digits);
    if (few != digits || !std::in_range<uint8_t>(places)) return {};
    return NarrowDecimal{.digits = few, .places = static_cast<uint8_t>(places)};
  }

  // Returns empty unless the text is a number such as "7", "-0.50" or " +12. " that is not too
  // long.
  static std::optional<Decimal> parse(std::string_view text);
  // Returns < 0, 0 or > 0.
  int compare(const Decimal& other) const;
  void append_to(std::string& text) const;
};

// A sum of decimal numbers, with as many places behind the point as the number that has the most.
// The order of additions changes neither the sum nor whether it has too many digits.
class DecimalSum {
 public:
  DecimalSum() = default;
  explicit DecimalSum(const Decimal& number)
      : low_(static_cast<__uint128_t>(number.digits)),
        high_(number.digits < 0 ? -1 : 0),
        places_(number.places),
        whole_digits_(number.digits == 0 ? of_zero
                                         : digits_of(number.digits) - static_cast<int>(places_)) {}
  static DecimalSum of(const NarrowDecimal& narrow) {
    DecimalSum sum;
    sum.low_ = static_cast<__uint128_t>(__int128_t{narrow.digits});
    sum.high_ = narrow.digits < 0 ? -1 : 0;
    sum.places_ = narrow.places;
    if (narrow.whole_digits != NarrowDecimal::of_zero) sum.whole_digits_ = narrow.whole_digits;
    return sum;
  }
  // Returns empty if the sum or one of its numbers has too many digits.
  std::optional<NarrowDecimal> narrow() const {
    const bool is_of_zero = whole_digits_ == of_zero;
    const auto sum = total();
    auto narrow = sum ? sum->narrow() : std::nullopt;
    if (!narrow || (!is_of_zero && whole_digits_ <= NarrowDecimal::of_zero)) return {};
    narrow->whole_digits = is_of_zero ? NarrowDecimal::of_zero : static_cast<int8_t>(whole_digits_);
    return narrow;
  }

  // Returns false, and changes nothing, if a number has too many digits beside the places of
  // another.
  bool add(const DecimalSum& other) {
    if (other.places_ != places_) return add_of_other_places(other);
    const int whole_digits = std::max(whole_digits_, other.whole_digits_);
    if (whole_digits > digits_max - static_cast<int64_t>(places_)) return false;
    low_ += other.low_;
    high_ += other.high_ + (low_ < other.low_ ? 1 : 0);
    whole_digits_ = whole_digits;
    return true;
  }
  // Returns the sum, or empty if it has too many digits.
  std::optional<Decimal> total() const {
    const auto digits = static_cast<__int128_t>(low_);
    if (high_ != (digits < 0 ? -1 : 0)) return {};
    return Decimal{digits, places_};
  }
  // Returns the sum without its point, and the places behind it.
  Wide wide() const { return Wide::of(high_, low_); }
  unsigned places() const { return places_; }

 private:
  static constexpr int of_zero = std::numeric_limits<int>::min();

  bool add_of_other_places(DecimalSum other);
  void add_places(unsigned places);

  // The sum without its point is high * 2^128 + low. Invariant: every added number, scaled to
  // `places`, has at most `digits_max` digits, so that 2^60 of them fit.
  __uint128_t low_ = 0;
  int64_t high_ = 0;
  unsigned places_ = 0;
  // Digits before the point of the largest number; if negative, zeros behind the point.
  int whole_digits_ = of_zero;
};

}  // namespace penstock::items
