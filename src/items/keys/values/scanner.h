#pragma once

// A walk through the text of a value.

#include <cstddef>
#include <string_view>

#include "items/keys/text/key_place.h"

namespace penstock::items {

// Returns the text without blanks around it. A carriage return is one, so that lines may end with
// CR and LF.
inline std::string_view without_blanks(std::string_view text) {
  constexpr auto is_around = [](char c) { return is_blank(c) || c == '\r'; };
  while (!text.empty() && is_around(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_around(text.back())) text.remove_suffix(1);
  return text;
}

constexpr char small_letter(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Each function consumes text if it finds what it is for.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  bool is_at_end() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }
  void skip(size_t bytes) { rest_.remove_prefix(bytes); }

  bool take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool take_sign(bool& negative) {
    negative = rest_.starts_with('-');
    return take('-') || take('+');
  }
  // Takes a word of small letters, whatever the case of the text.
  bool take_word(std::string_view word) {
    if (rest_.size() < word.size()) return false;
    for (size_t i = 0; i < word.size(); ++i)
      if (small_letter(rest_[i]) != word[i]) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  size_t take_blanks() {
    size_t count = 0;
    for (; !rest_.empty() && is_blank(rest_.front()); ++count) rest_.remove_prefix(1);
    return count;
  }
  std::string_view digits() {
    size_t count = 0;
    while (count < rest_.size() && is_digit(rest_[count])) ++count;
    const std::string_view found = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return found;
  }
  // Reads a number of so many digits.
  bool number(unsigned& value, size_t digits_min, size_t digits_max) {
    size_t count = 0;
    value = 0;
    while (count < digits_max && count < rest_.size() && is_digit(rest_[count]))
      value = 10 * value + static_cast<unsigned>(rest_[count++] - '0');
    rest_.remove_prefix(count);
    return count >= digits_min;
  }

 private:
  std::string_view rest_;
};

}  // namespace penstock::items
