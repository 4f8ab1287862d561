#pragma once

// Decimal numbers as people write them.
//
//   1,234.50   -.5   1e-05   $5   (5.00)   -$1,234   5 %
//
// A sign or parentheses, a currency sign at either end, digits in groups or without, a fraction, an
// exponent, and a percent sign, which divides by 100. Each may be left out but for the digits.

#include <optional>
#include <string>
#include <string_view>

#include "items/decimal.h"
#include "items/keys/text/key_bytes.h"
#include "penstock/base.h"

namespace penstock::items {

// Thread safety: immutable.
class NumberFormat {
 public:
  // Reads an example such as "1,234.50", "1.234,50", "1 234,50" or "1234,5": its point, and its
  // separator of groups. Errors: invalid_argument.
  static Result<NumberFormat> parse(std::string_view example);

  // Returns the number, whose digits stay in `room`; empty if the text is none. Groups but the first
  // have three digits, or two if one of three follows, so that 1,5 is none in 1,234.50.
  std::optional<Number> read(std::string_view text, std::string& room) const;
  // Appends the bytes of TextCompare::numeric. Returns false, and appends nothing, if the text is no
  // number.
  bool append(std::string_view text, std::string& to) const;

 private:
  bool take_group(std::string_view& text) const;

  char point_ = '.';
  std::string group_;  // empty: there are no groups
};

// Returns the digits of a number without its exponent, as in "-12.50", in `room`; empty if they are
// hundreds.
std::optional<std::string_view> plain_digits(const Number& number, std::string& room);
// Returns the number of a text in this format, or as Decimal::parse() if it is nullptr; empty if the
// text is none, or has too many digits.
std::optional<Decimal> decimal_of(std::string_view text, const NumberFormat* format);

}  // namespace penstock::items
