#include "items/wide.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "items/decimal.h"

namespace penstock::items {
namespace {

constexpr unsigned word_bits = 64;
constexpr unsigned power_max = 19;  // the greatest power of ten in a word
constexpr uint64_t power_of_word = 10'000'000'000'000'000'000u;

}  // namespace

Wide::Wide(__int128_t number) {
  words_.fill(number < 0 ? ~uint64_t{0} : 0);
  words_[0] = static_cast<uint64_t>(number);
  words_[1] = static_cast<uint64_t>(number >> word_bits);
}

Wide Wide::of(int64_t high, __uint128_t low) {
  Wide wide(high);
  std::copy_backward(wide.words_.begin(), wide.words_.end() - 2, wide.words_.end());
  wide.words_[0] = static_cast<uint64_t>(low);
  wide.words_[1] = static_cast<uint64_t>(low >> word_bits);
  return wide;
}

Wide Wide::operator+(const Wide& other) const {
  Wide sum;
  __uint128_t carry = 0;
  for (size_t i = 0; i < words_max; ++i) {
    carry += __uint128_t{words_[i]} + other.words_[i];
    sum.words_[i] = static_cast<uint64_t>(carry);
    carry >>= word_bits;
  }
  return sum;
}

Wide Wide::operator-(const Wide& other) const {
  Wide inverse;
  std::ranges::transform(other.words_, inverse.words_.begin(), [](uint64_t word) { return ~word; });
  return *this + inverse + Wide(1);
}

Wide Wide::operator*(const Wide& other) const {
  Wide product;
  for (size_t i = 0; i < words_max; ++i) {
    if (words_[i] == 0) continue;
    uint64_t carry = 0;
    for (size_t k = 0; i + k < words_max; ++k) {
      const __uint128_t part =
          __uint128_t{words_[i]} * other.words_[k] + product.words_[i + k] + carry;
      product.words_[i + k] = static_cast<uint64_t>(part);
      carry = static_cast<uint64_t>(part >> word_bits);
    }
  }
  return product;
}

uint64_t Wide::divide(uint64_t divisor) {
  uint64_t rest = 0;
  for (size_t i = words_max; i-- > 0;) {
    if (rest == 0 && words_[i] == 0) continue;
    const __uint128_t part = __uint128_t{rest} << word_bits | words_[i];
    words_[i] = static_cast<uint64_t>(part / divisor);
    rest = static_cast<uint64_t>(part % divisor);
  }
  return rest;
}

Wide Wide::times_power_of_ten(unsigned power) const {
  Wide product = *this;
  for (; power >= power_max; power -= power_max)
    product = product * Wide(static_cast<__int128_t>(power_of_word));
  uint64_t rest = 1;
  for (; power > 0; --power) rest *= 10;
  return rest == 1 ? product : product * Wide(static_cast<__int128_t>(rest));
}

unsigned Wide::bits() const {
  for (size_t i = words_max; i-- > 0;) {
    if (words_[i] != 0)
      return static_cast<unsigned>(i * word_bits) +
             static_cast<unsigned>(std::bit_width(words_[i]));
  }
  return 0;
}

unsigned Wide::digits() const {
  Wide rest = *this;
  unsigned digits = 0;
  for (; rest.bits() > 126; digits += power_max) rest.divide(power_of_word);
  return digits + static_cast<unsigned>(digits_of(static_cast<__int128_t>(rest.low())));
}

Wide Wide::root() const {
  constexpr unsigned bits_of_fast = 126;
  if (bits() <= bits_of_fast) {
    const __uint128_t square = low();
    auto root = static_cast<__uint128_t>(std::sqrt(static_cast<long double>(square)));
    while (root * root > square) --root;
    while ((root + 1) * (root + 1) <= square) ++root;
    return Wide(static_cast<__int128_t>(root));
  }
  // Newton's steps from above would divide by wide numbers; bits are found one by one instead.
  Wide root;
  for (unsigned bit = (bits() + 1) / 2 + 1; bit-- > 0;) {
    Wide larger = root;
    larger.words_[bit / word_bits] |= uint64_t{1} << bit % word_bits;
    if (!(*this < larger * larger)) root = larger;
  }
  return root;
}

}  // namespace penstock::items
