#pragma once

// Decimal numbers as text has them, added exactly.

#include <optional>
#include <string>
#include <string_view>

namespace penstock::record {

// Up to 38 digits. As many places behind the point as the number with the most of them had.
struct Decimal {
  __int128_t digits = 0;  // without the point
  unsigned places = 0;    // behind it

  // Nothing: it is no number such as "7", "-0.50" or " +12. ", or too long a one.
  static std::optional<Decimal> parse(std::string_view text);
  // False, and nothing has changed: the sum has too many digits.
  bool add(const Decimal& other);
  // < 0, 0, > 0.
  int compare(const Decimal& other) const;
  std::string text() const;
};

}  // namespace penstock::record
