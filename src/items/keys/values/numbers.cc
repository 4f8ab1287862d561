#include "items/keys/values/numbers.h"

#include <algorithm>

#include "base/misuse.h"
#include "base/utf8.h"
#include "items/keys/values/scanner.h"

namespace penstock::items {
namespace {

bool take_text(std::string_view& text, std::string_view what) {
  if (!text.starts_with(what)) return false;
  text.remove_prefix(what.size());
  return true;
}

// Blanks of one column that do not break lines, as French and Swiss numbers have them.
constexpr std::string_view narrow_blanks[] = {" ", "\u00a0", "\u2009", "\u202f"};

constexpr bool is_currency(uint32_t code) {
  return code == '$' || code == 0xa3 || code == 0xa5 || (code >= 0x20a0 && code <= 0x20cf);
}

bool take_narrow_blank(std::string_view& text) {
  return std::ranges::any_of(narrow_blanks, [&](auto blank) { return take_text(text, blank); });
}

void skip_narrow_blanks(std::string_view& text) {
  while (take_narrow_blank(text)) {
  }
}

bool take_currency(std::string_view& text) {
  if (text.empty()) return false;
  const Utf8Character first = first_character(text);
  if (first.bytes == 0 || !is_currency(first.code)) return false;
  text.remove_prefix(first.bytes);
  return true;
}

// Takes a sign, a hyphen or the minus of typesetters.
bool take_sign(std::string_view& text, bool& negative) {
  negative = text.starts_with('-') || text.starts_with("\u2212");
  return take_text(text, "-") || take_text(text, "\u2212") || take_text(text, "+");
}

}  // namespace

bool NumberFormat::take_group(std::string_view& text) const {
  if (group_.empty()) return false;
  return group_ == " " ? take_narrow_blank(text) : take_text(text, group_);
}

std::optional<Number> NumberFormat::read(std::string_view text, std::string& room) const {
  text = without_blanks(text);
  Number number;
  const bool is_in_parentheses = text.starts_with('(') && text.ends_with(')');
  if (is_in_parentheses) text = text.substr(1, text.size() - 2);
  bool has_sign = take_sign(text, number.negative);
  skip_narrow_blanks(text);
  const bool has_currency = take_currency(text);
  if (has_currency) {
    skip_narrow_blanks(text);
    has_sign = has_sign || take_sign(text, number.negative);
  }
  if (is_in_parentheses && has_sign) return {};
  number.negative |= is_in_parentheses;

  room.clear();
  const auto take_digits = [&] {
    const size_t from = room.size();
    for (; !text.empty() && is_digit(text.front()); text.remove_prefix(1)) room += text.front();
    return room.size() - from;
  };
  size_t last_group = take_digits();
  bool has_groups = false;
  for (std::string_view rest = text; last_group > 0 && take_group(rest); rest = text) {
    if (rest.empty() || !is_digit(rest.front())) break;  // a blank in front of a unit
    if (last_group > 3 || (has_groups && last_group < 2)) return {};
    has_groups = true;
    text = rest;
    last_group = take_digits();
  }
  if (has_groups && last_group != 3) return {};
  const size_t whole = room.size();
  if (text.starts_with(point_)) {
    text.remove_prefix(1);
    take_digits();
  }
  if (room.empty()) return {};
  if (text.starts_with('e') || text.starts_with('E')) {
    constexpr size_t exponent_digits_max = 6;
    Scanner rest(text.substr(1));
    bool negative = false;
    unsigned exponent = 0;
    (void)rest.take_sign(negative);
    if (!rest.number(exponent, 1, exponent_digits_max)) return {};
    number.exponent = negative ? -int64_t{exponent} : int64_t{exponent};
    text = rest.rest();
  }
  skip_narrow_blanks(text);
  if (take_text(text, "%")) {
    number.exponent -= 2;
  } else if (!has_currency) {
    (void)take_currency(text);
  }
  if (!text.empty()) return {};
  number.whole = std::string_view(room).substr(0, whole);
  number.fraction = std::string_view(room).substr(whole);
  while (number.whole.starts_with('0')) number.whole.remove_prefix(1);
  while (number.fraction.ends_with('0')) number.fraction.remove_suffix(1);
  return number;
}

bool NumberFormat::append(std::string_view text, std::string& to) const {
  std::string room;
  const auto number = read(text, room);
  if (number) append_number(*number, to);
  return number.has_value();
}

std::optional<std::string_view> plain_digits(const Number& number, std::string& room) {
  constexpr int64_t exponent_max = 300;
  if (number.exponent > exponent_max || number.exponent < -exponent_max) return {};
  const std::string digits = std::string(number.whole) + std::string(number.fraction);
  const int64_t point = static_cast<int64_t>(number.whole.size()) + number.exponent;
  const auto zeros = [](int64_t count) {
    return std::string(static_cast<size_t>(std::max<int64_t>(count, 0)), '0');
  };
  const auto places = static_cast<int64_t>(digits.size()) - point;
  room = zeros(1 - point) + digits + zeros(-places);
  if (places > 0) room.insert(room.size() - static_cast<size_t>(places), 1, '.');
  if (number.negative) room.insert(0, 1, '-');
  return room;
}

std::optional<Decimal> decimal_of(std::string_view text, const NumberFormat* format) {
  if (format == nullptr) return Decimal::parse(text);
  std::string room, digits_room;
  const auto number = format->read(text, room);
  const auto digits = number ? plain_digits(*number, digits_room) : std::nullopt;
  return digits ? Decimal::parse(*digits) : std::nullopt;
}

Result<NumberFormat> NumberFormat::parse(std::string_view example) {
  const auto bad =
      misuse("read numbers as in this example", "--number-format '" + std::string(example) + "'",
             "1,234.50, 1.234,50, 1 234,50 or 1234,50");
  NumberFormat format;
  Scanner rest(example);
  const size_t first = rest.digits().size();
  const size_t point = rest.rest().find_last_not_of("0123456789");
  if (first == 0 || point == std::string_view::npos) return bad;
  format.point_ = rest.rest()[point];
  const bool has_fraction = point + 1 < rest.rest().size();
  if ((format.point_ != '.' && format.point_ != ',') || !has_fraction) return bad;
  if (point > 0) {
    const size_t digits = std::min(rest.rest().find_first_of("0123456789"), point);
    format.group_ = rest.rest().substr(0, digits);
    const bool is_narrow_blank =
        std::ranges::find(narrow_blanks, format.group_) != std::end(narrow_blanks);
    if (is_narrow_blank) format.group_ = " ";
    constexpr std::string_view others[] = {",", ".", "'", "\u2019", "_", " "};
    if (std::ranges::find(others, format.group_) == std::end(others) ||
        format.group_ == std::string_view(&format.point_, 1))
      return bad;
  }
  // "1,234" may mean a group or a fraction.
  constexpr size_t group_digits = 3;
  const size_t fraction = rest.rest().size() - point - 1;
  if (format.group_.empty() && first <= group_digits && fraction == group_digits) return bad;
  std::string room;
  if (!format.read(example, room)) return bad;
  return format;
}

}  // namespace penstock::items
