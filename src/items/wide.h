#pragma once

// Whole numbers of 512 bits, for the exact sums of which a result is one quotient or root.

#include <array>
#include <cstddef>
#include <cstdint>

namespace penstock::items {

// A number in two's complement; bits beyond its own are lost. The digits of a Decimal bound it: a
// square has 260 bits, and 2^64 of them, each times 2^64, 388.
class Wide {
 public:
  static constexpr size_t words_max = 8;

  Wide() = default;
  Wide(__int128_t number);  // NOLINT(google-explicit-constructor): numbers mix with it
  // high * 2^128 + low.
  static Wide of(int64_t high, __uint128_t low);

  Wide operator-() const { return Wide() - *this; }
  Wide operator+(const Wide& other) const;
  Wide operator-(const Wide& other) const;
  Wide operator*(const Wide& other) const;
  // Divides a number that is not negative, and returns the remainder. REQUIRES: divisor > 0.
  uint64_t divide(uint64_t divisor);
  Wide times_power_of_ten(unsigned power) const;

  bool negative() const { return words_.back() >> 63 != 0; }
  bool is_zero() const { return *this == Wide(); }
  bool operator==(const Wide&) const = default;
  bool operator<(const Wide& other) const { return (*this - other).negative(); }
  bool odd() const { return (words_[0] & 1) != 0; }
  // The bits of a number that is not negative; its lowest 128; and the decimal digits, 0 of zero.
  unsigned bits() const;
  __uint128_t low() const { return __uint128_t{words_[1]} << 64 | words_[0]; }
  unsigned digits() const;
  // The whole part of the square root of a number that is not negative.
  Wide root() const;

 private:
  std::array<uint64_t, words_max> words_ = {};  // the lowest first
};

}  // namespace penstock::items
