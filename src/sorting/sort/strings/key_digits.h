#pragma once

// Numbers of 64 bits for each of many keys, which give as much of their order as possible.
//
// Eight bytes of a key are such a number, too, but a byte of most keys has few values: a decimal
// digit takes 3.3 bits, a small letter 4.8, the separator of a timestamp none. So many keys are
// equal in these eight bytes, and each has to be read again at its own place: two misses of the
// cache.
//
// Here the values of a byte in any of the keys are numbered from 0 on, for each place separately,
// and these are the digits of a number in mixed radix. The numbers are in the order of the keys, up
// to ties. 64 bits take 13 letters of a word, or all of "2026-01-05T12:34:56.123456". A digit is
// not computed: a table has the value of a byte at its place, so that a number is the sum of a word
// for each byte. If room ends within a digit, several of its values have the same number.
//
// The keys are read through a window: from one byte of them on, `window_max` at most. A key that
// ends before is filled with zeros.
//
// There can be a second number, of fewer bits, which goes on where the first ends.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "sorting/sort/kernels/kernels.h"

namespace penstock::sorting {

// Whether all keys of a number end within the bytes that it covers, so that they are equal.
struct KeysEnd {
  // The last digit: 0 stands for the end. Radix 0: unknown for every number.
  uint64_t weight = 1;
  uint64_t radix = 0;
  uint64_t flip = 0;

  bool operator()(uint64_t number) const {
    return radix != 0 && (number ^ flip) / weight % radix == 0;
  }
};

class KeyDigits {
 public:
  static constexpr size_t window_max = SeenBytes::window_max;
  static constexpr unsigned number_bits = 64;

  // `more_bits`: bits of the second number; 0: none.
  KeyDigits(bool descending, unsigned more_bits) : descending_(descending), more_bits_(more_bits) {}

  // Forgets all keys. The next ones are alike up to `from`; `zeros`: some have bytes 0 there, so
  // that others may only seem to be.
  void start(size_t from, bool zeros = false);
  // Looks at keys; every key has to be seen before choose(). Threads have a SeenBytes each.
  void look(std::span<const std::string_view> keys) { look_to(keys, seen_); }
  void look_to(std::span<const std::string_view> keys, SeenBytes& seen) const {
    look_at_keys(keys, from_, window_, seen);
  }
  void add(const SeenBytes& seen);
  // Called after a look at some of the keys: only the bytes of the others that are needed will be
  // looked at. (More keys make more values, so that fewer places fill the numbers.)
  void narrow();
  void choose();

  // REQUIRES: the keys were looked at. `more`, if has_more(): room for as many.
  void number(std::span<const std::string_view> keys, uint64_t* numbers, uint64_t* more) const;
  // Whether the second number has any digits.
  bool has_more() const { return more_.window > 0; }

  // Whether the keys are alike in all of the window; it may begin behind them.
  bool all_alike() const { return all_alike_; }
  // Keys of equal numbers are alike up to here.
  size_t covered() const { return covered_; }
  // Whether keys of equal numbers are equal.
  bool complete() const {
    return covered_ >= seen_.bytes_max && !(seen_.zeros && seen_.bytes_min != seen_.bytes_max);
  }
  // Whether some of the keys have bytes 0 in the window, or before.
  bool zeros() const { return seen_.zeros; }
  // Ends of keys for the last of the numbers.
  const KeysEnd& keys_end() const { return keys_end_; }
  size_t bytes_max() const { return seen_.bytes_max; }  // length of the longest key
  size_t from() const { return from_; }                 // begin of the window

 private:
  struct Number {
    size_t first = 0;   // place in the window
    size_t window = 0;  // places that count
    size_t table = 0;   // their first table
    uint64_t flip = 0;
  };

  // The values of a place, in order.
  struct Values {
    std::array<uint8_t, 256> bytes;
    unsigned count = 0;
  };
  Values values_at(size_t place) const;
  // Places of the window at which a key has a byte.
  size_t places() const;
  // Adds as many places from `first` on as `bits` have room for; returns the first place that does
  // not have all its values.
  size_t make(Number& number, size_t first, size_t table, unsigned bits);

  const bool descending_;
  const unsigned more_bits_;
  size_t from_ = 0;
  size_t window_ = window_max;
  SeenBytes seen_;
  Number first_;
  Number more_;
  size_t covered_ = 0;
  bool all_alike_ = true;
  KeysEnd keys_end_;
  // One place may have two tables, one for each number.
  WorthOfBytes worth_[window_max + 1];
};

}  // namespace penstock::sorting
