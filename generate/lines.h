#pragma once

// Writes one line of generated text: words of small letters (sometimes with one of UTF-8, so that
// bytes above 127 appear), up to line_bytes_max with its newline.

#include <cstddef>
#include <cstdint>

#include "base/random.h"

namespace penstock::generate {

inline constexpr size_t line_bytes_max = 1024;

// Thread safety: none. Invariants: end_ never passes the room for a newline.
class LineWriter {
 public:
  // REQUIRES: `out` has room for line_bytes_max bytes.
  explicit LineWriter(char* out) : begin_(out), end_(out), limit_(out + line_bytes_max - 1) {}

  LineWriter& words(Random& random, uint64_t count);  // separated by blanks
  LineWriter& number(uint64_t value);                 // 20 digits and a blank
  LineWriter& prefix(uint64_t which);  // one of a few long texts, which share beginnings
  LineWriter& text(Random& random);    // any length: mostly some words, sometimes 0 or many
  size_t finish();                     // adds the newline; returns the line's bytes

 private:
  void word(Random& random);
  void put(char letter) {
    if (end_ < limit_) *end_++ = letter;
  }

  char* begin_;
  char* end_;
  char* limit_;
};

}  // namespace penstock::generate
