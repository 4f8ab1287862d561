#include "files/ops/group/group_values.h"

#include <algorithm>
#include <utility>

#include "items/keys/text/key_bytes.h"

namespace penstock::files {
namespace {

using items::Decimal;
using items::Wide;

constexpr char negative_sign = 0;
constexpr char zero_sign = 1;
constexpr char positive_sign = 2;
constexpr uint32_t point_bias = uint32_t{1} << 31;
constexpr size_t number_head_bytes = 1 + sizeof(uint32_t);

char inverted(char byte) {
  return static_cast<char>(~byte);
}

void append_number(const Decimal& number, std::string& to) {
  if (number.digits == 0) {
    to += zero_sign;
    return;
  }
  const bool negative = number.digits < 0;
  std::string digits;
  Decimal{negative ? number.digits : -number.digits, 0}.append_to(digits);
  digits.erase(0, 1);  // the minus, so that the least number has no overflow
  const auto point =
      point_bias + static_cast<uint32_t>(digits.size()) - static_cast<uint32_t>(number.places);
  while (digits.ends_with('0')) digits.pop_back();
  if (digits.size() % 2 != 0) digits += '0';
  to += negative ? negative_sign : positive_sign;
  const size_t begin = to.size();
  for (const int shift : {24, 16, 8, 0}) to += static_cast<char>(point >> shift);
  for (size_t i = 0; i < digits.size(); i += 2)
    to += static_cast<char>(10 * (digits[i] - '0') + (digits[i + 1] - '0') + 1);
  if (!negative) return;
  std::transform(to.begin() + static_cast<ptrdiff_t>(begin), to.end(),
                 to.begin() + static_cast<ptrdiff_t>(begin), inverted);
  to += '\xff';
}

}  // namespace

void append_group_key(std::string_view key, std::string& to) {
  for (const char c : key) {
    to += c;
    if (c == '\0') to += '\xff';
  }
  to.append(2, '\0');
}

bool append_value(std::string_view text, bool is_number, std::string& to,
                  const items::NumberFormat* format) {
  if (text.find_first_not_of(" \t") == text.npos) return false;
  if (!is_number) {
    to += text;
    return true;
  }
  const auto number = items::decimal_of(text, format);
  if (number) append_number(*number, to);
  return number.has_value();
}

bool append_member(const items::JsonValue& value, std::string_view text, std::string& to) {
  if (text.find_first_not_of(" \t") == text.npos) return false;
  to += static_cast<char>(value.type);
  const auto number =
      value.type == items::JsonType::number ? value.number() : std::optional<items::Number>();
  if (number) {
    items::append_number(*number, to);
  } else {
    to += text;
  }
  return true;
}

Wide number_of_value(std::string_view bytes, unsigned places) {
  if (bytes.front() == zero_sign) return {};
  const bool negative = bytes.front() == negative_sign;
  auto byte_at = [&](size_t i) {
    return static_cast<uint8_t>(negative ? inverted(bytes[i]) : bytes[i]);
  };
  uint32_t point = 0;
  for (size_t i = 1; i < number_head_bytes; ++i) point = point << 8 | byte_at(i);
  const size_t end = bytes.size() - (negative ? 1 : 0);
  __int128_t digits = 0;
  for (size_t i = number_head_bytes; i + 1 < end; ++i) digits = 100 * digits + byte_at(i) - 1;
  // The last pair may end with a zero that was none of the number's.
  const unsigned last = byte_at(end - 1) - 1u;
  const bool odd = last % 10 == 0;
  const auto count = static_cast<int64_t>(2 * (end - number_head_bytes)) - (odd ? 1 : 0);
  digits = odd ? 10 * digits + last / 10 : 100 * digits + last;
  const int64_t power = int64_t{places} + (int64_t{point} - int64_t{point_bias}) - count;
  const Wide whole = Wide(negative ? -digits : digits);
  return whole.times_power_of_ten(static_cast<unsigned>(power));
}

void ValueFold::begin(const char* state) {
  lists_.assign(columns_.lists().size(), {});
  const auto& results = columns_.results();
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].list) continue;
    List& list = lists_[*results[i].list];
    if (!columns_.lists()[*results[i].list].numbers) continue;
    const auto numbers = columns_.numbers_of(state, results[i].column);
    list.places = numbers.places;
    if (numbers.count > 0)
      list.ranks.push_back({i, items::QuantileRank(numbers.count, results[i].fraction), {}, {}});
  }
}

void ValueFold::add(size_t number, std::string_view value, uint64_t count) {
  List& list = lists_[number];
  ++list.different;
  const uint64_t end = list.seen + count;
  for (Rank& one : list.ranks) {
    auto is_here = [&](uint64_t rank) { return rank >= list.seen && rank < end; };
    if (is_here(one.rank.rank)) one.at_rank = number_of_value(value, list.places);
    if (one.rank.part != 0 && is_here(one.rank.rank + 1))
      one.at_next = number_of_value(value, list.places);
  }
  list.seen = end;
}

Result<std::vector<std::string>> ValueFold::finish() {
  const auto& results = columns_.results();
  std::vector<std::string> texts(results.size());
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].function == Function::count_distinct)
      texts[i] = std::to_string(lists_[*results[i].list].different);
  }
  for (const List& list : lists_) {
    for (const Rank& one : list.ranks) {
      const Wide at_rank = one.at_rank.value_or(Wide());
      const auto number = one.rank.between(at_rank, one.at_next.value_or(at_rank), list.places);
      if (!number) return columns_.too_long(results[one.result].column);
      number->append_to(texts[one.result]);
    }
  }
  return texts;
}

}  // namespace penstock::files
