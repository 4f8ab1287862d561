#pragma once

// Numbers of 64 bits for each of many keys, which tell as much of their order as possible.
//
// Eight bytes of a key are the naive number, but a byte of most keys has few values: a decimal digit
// takes 3.3 bits, a small letter 4.8, the separator of a timestamp none. So many keys are equal in
// these eight bytes, and have to be looked at again, each at a place of its own: two misses of the
// cache.
//
// Here the values that a byte has in any of the keys are numbered, from 0 on, for each place by itself,
// and these are the digits of a number in mixed radix. The numbers are in the order of the keys, up to
// ties. Of a word 13 letters go into 64 bits, of "2026-01-05T12:34:56.123456" all. A digit is not computed:
// what a byte is worth at its place stands in a table, so that a number is the sum of a word for each byte. Where room ends
// within a digit, several of its values are worth the same.
//
// The keys are looked at through a window: from one byte of them on, `window_max` at most. A key that
// ends before is filled up with zeros.
//
// There can be a second number, of fewer bits, which goes on where the first ends.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "sorting/sort/kernels/kernels.h"

namespace penstock::sorting {

// Whether all keys of a number end within what it covers, so that they are equal.
struct KeysEnd {
  // The last digit: 0 stands for the end. Radix 0: no number tells.
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

  // `more_bits`: of the second number; 0: none.
  KeyDigits(bool descending, unsigned more_bits) : descending_(descending), more_bits_(more_bits) {}

  // Forgets all keys. The next ones are alike up to `from`; `zeros`: some have bytes 0 there, so that others may
  // only seem to.
  void start(size_t from, bool zeros = false);
  // Every key has to be seen before choose(). By several threads: each adds to a SeenBytes of its own.
  void look(std::span<const std::string_view> keys) { look_to(keys, seen_); }
  void look_to(std::span<const std::string_view> keys, SeenBytes& seen) const {
    look_at_keys(keys, from_, window_, seen);
  }
  void add(const SeenBytes& seen);
  // After a look at some of the keys: of the others no more will be looked at than what is needed.
  // (More keys make more values, so that fewer places fill the numbers.)
  void narrow();
  void choose();

  // REQUIRES: the keys were looked at. `more`, if has_more(): room for as many.
  void number(std::span<const std::string_view> keys, uint64_t* numbers, uint64_t* more) const;
  // There is something for the second number to tell.
  bool has_more() const { return more_.window > 0; }

  // The keys are alike in all of the window; it may begin behind them.
  bool all_alike() const { return all_alike_; }
  // Keys of equal numbers are alike up to here.
  size_t covered() const { return covered_; }
  // Keys of equal numbers are equal.
  bool complete() const {
    return covered_ >= seen_.bytes_max && !(seen_.zeros && seen_.bytes_min != seen_.bytes_max);
  }
  // Some of the keys have bytes 0 in the window, or before.
  bool zeros() const { return seen_.zeros; }
  // For the last of the numbers.
  const KeysEnd& keys_end() const { return keys_end_; }
  size_t bytes_max() const { return seen_.bytes_max; }  // of a key
  size_t from() const { return from_; }                 // where the window begins

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
  // Those of the window where a key has a byte.
  size_t places() const;
  // As many places from `first` on as `bits` have room for; returns the place of the first that is not there
  // with all its values.
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
  // One place may have two, one for each number.
  WorthOfBytes worth_[window_max + 1];
};

}  // namespace penstock::sorting
