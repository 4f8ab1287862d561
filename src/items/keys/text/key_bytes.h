#pragma once

// The bytes of a key, whose order is the key's.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "items/keys/text/key.h"
#include "items/keys/text/locale.h"

namespace penstock::items {

struct ValueFormats;  // values/formats.h

struct KeyBytes {
  bool last = false;                      // nothing follows, so the bytes need no end of their own
  uint64_t random_seed = 0;               // seed of TextCompare::random
  const Locale* locale = nullptr;         // nullptr is the locale C
  const ValueFormats* formats = nullptr;  // REQUIRES: is set for times and numbers of a format
};

// The value of a decimal number: its sign, and its digits without zeros in front and at the end.
struct Number {
  bool negative = false;
  std::string_view whole = {};     // digits before the point, without zeros in front
  std::string_view fraction = {};  // digits behind it, without zeros at the end
  int64_t exponent = 0;            // the power of ten beside them
  bool is_all = false;             // the text goes on to its end with nothing but digits

  bool is_zero() const { return whole.empty() && fraction.empty(); }
};

// Returns the number at the beginning of a text, as -n reads it.
Number number_in(std::string_view text, const Locale* locale);
// Appends the bytes of TextCompare::numeric.
void append_number(const Number& number, std::string& to);

// Appends the length of a number, so that longer ones come later: a byte from `first` on, and more
// bytes from `short_max` on.
void append_length(size_t length, unsigned first, unsigned short_max, std::string& to);
// Appends digits, two to a byte.
void append_pairs(std::string_view digits, std::string& to);

// Appends the bytes of a key, which stands in its line as `text`. Returns false if the key may not
// have read all of the text: a cheap test, which a blank behind a number fails, too.
bool append_key(const TextKey& key, std::string_view text, const KeyBytes& how, std::string& to);

// Returns whether a text is a value of the key's order. REQUIRES: may_be_none(key.compare).
bool is_value(const TextKey& key, std::string_view text, const KeyBytes& how);

// Appends a text without changes. `last` is KeyBytes::last.
void append_text(std::string_view text, const Locale* locale, bool last, std::string& to);
// Returns the part of the key's text that its order compares: a number, a month, or all. It is
// empty, at the place where the part would stand, if there is none.
std::string_view compared_part(const TextKey& key, std::string_view text, const Locale* locale);
// Reverses the order of the bytes behind `from`.
void complement(std::string& text, size_t from);

}  // namespace penstock::items
