#include <algorithm>

#include "items/keys/text/key_bytes.h"
#include "items/keys/values/scanner.h"
#include "items/keys/values/values.h"

// A number is its length, without zeros in front, and its digits, two to a byte.
//
//   hex       the number
//   natural   each character, and '0' and the number in place of digits; the end is 0 1, a NUL 0 2
//   semver    three numbers, then 2 for a release, or for a pre-release its identifiers: 0 and a
//             number, or 1, the text and 0; each but the first has another 1 in front, and a 0 ends
//             them

namespace penstock::items {
namespace {

void append_number_of(std::string_view digits, std::string& to) {
  while (digits.starts_with('0')) digits.remove_prefix(1);
  append_length(digits.size(), 0, 200, to);
  append_pairs(digits, to);
}

bool is_numeric(std::string_view text) {
  return text.find_first_not_of("0123456789") == text.npos;
}

bool is_identifier(std::string_view text) {
  return !text.empty() &&
         text.find_first_not_of(
             "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-") == text.npos;
}

// Calls `take` with each identifier of "alpha.1". Returns false if one is none, or `take` does.
bool each_identifier(std::string_view list, auto&& take) {
  for (;;) {
    const size_t point = std::min(list.find('.'), list.size());
    if (!is_identifier(list.substr(0, point)) || !take(list.substr(0, point))) return false;
    if (point == list.size()) return true;
    list.remove_prefix(point + 1);
  }
}

constexpr bool has_zero_in_front(std::string_view digits) {
  return digits.size() > 1 && digits.starts_with('0');
}

bool append_version_of(std::string_view text, std::string& to) {
  Scanner rest(text);
  (void)rest.take('v');
  for (int part = 0; part < 3; ++part) {
    if (part > 0 && !rest.take('.')) return false;
    const std::string_view digits = rest.digits();
    if (digits.empty() || has_zero_in_front(digits)) return false;
    append_number_of(digits, to);
  }
  const size_t plus = std::min(rest.rest().find('+'), rest.rest().size());
  std::string_view before = rest.rest().substr(0, plus);
  rest.skip(plus);
  if (rest.take('+') && !each_identifier(rest.rest(), [](auto) { return true; })) return false;
  constexpr char is_number = 0, is_text = 1, is_release = 2;
  constexpr char end = 0, goes_on = 1;
  if (before.empty()) {
    to.push_back(is_release);
    return true;
  }
  if (!before.starts_with('-')) return false;
  before.remove_prefix(1);
  bool is_first = true;
  const bool is_right = each_identifier(before, [&](std::string_view identifier) {
    if (!is_first) to.push_back(goes_on);
    is_first = false;
    if (is_numeric(identifier)) {
      to.push_back(is_number);
      append_number_of(identifier, to);
      return !has_zero_in_front(identifier);
    }
    (to += is_text) += identifier;
    to.push_back('\0');
    return true;
  });
  to.push_back(end);
  return is_right;
}

}  // namespace

bool append_semver(std::string_view text, std::string& to) {
  const size_t from = to.size();
  if (append_version_of(without_blanks(text), to)) return true;
  to.resize(from);
  return false;
}

bool append_hexadecimal(std::string_view text, std::string& to) {
  text = without_blanks(text);
  Scanner rest(text);
  if (rest.take_word("0x")) text = rest.rest();
  if (text.empty() || text.find_first_not_of("0123456789abcdefABCDEF") != text.npos) return false;
  while (text.starts_with('0')) text.remove_prefix(1);
  append_length(text.size(), 0, 200, to);
  const auto value = [](char c) {
    return static_cast<unsigned>(is_digit(c) ? c - '0' : small_letter(c) - 'a' + 10);
  };
  for (size_t i = 0; i < text.size(); i += 2)
    to.push_back(
        static_cast<char>(value(text[i]) << 4 | (i + 1 < text.size() ? value(text[i + 1]) : 0)));
  return true;
}

bool append_natural(std::string_view text, std::string& to) {
  for (Scanner rest(text); !rest.is_at_end();) {
    if (const std::string_view digits = rest.digits(); !digits.empty()) {
      to.push_back('0');
      append_number_of(digits, to);
      continue;
    }
    to.push_back(rest.rest().front());
    if (rest.take('\0')) {
      to.push_back(2);
    } else {
      rest.skip(1);
    }
  }
  to.append("\0\1", 2);
  return true;
}

}  // namespace penstock::items
