#include "files/ops/group/group_columns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <bit>
#include <utility>

#include "base/misuse.h"
#include "items/keys/codec.h"
#include "items/keys/json_order.h"
#include "items/keys/text/text_order.h"
#include "items/keys/values/scanner.h"

namespace penstock::files {
namespace {

using items::Decimal;
using items::DecimalSum;
using items::NarrowDecimal;
using items::SquareSum;

// Flags in front of the state of a column.
constexpr char any_bit = 1;
constexpr char wide_bit = 2;
constexpr size_t slot_head_bytes = 2 * sizeof(uint32_t);
constexpr size_t slot_room_min = 8;

constexpr std::array<std::pair<std::string_view, Function>, 10> functions = {
    {{"sum", Function::sum},
     {"min", Function::min},
     {"max", Function::max},
     {"mean", Function::mean},
     {"first", Function::first},
     {"last", Function::last},
     {"count-distinct", Function::count_distinct},
     {"stddev", Function::stddev},
     {"median", Function::median},
     {"quantile", Function::quantile}}};
constexpr const char* some_words = "sum=COLUMN, mean=COLUMN or quantile=0.9:COLUMN";

// The share of the numbers that is below a quantile; empty if the text is none.
std::optional<Decimal> fraction_of(std::string_view text) {
  const auto number = Decimal::parse(text);
  if (!number || number->places > items::QuantileRank::fraction_places_max) return {};
  const bool is_within = number->compare({0, 0}) >= 0 && number->compare({1, 0}) <= 0;
  return is_within ? number : std::nullopt;
}

bool is_nan(std::string_view text) {
  items::Scanner rest(items::without_blanks(text));
  return rest.take_word("nan") && rest.is_at_end();
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t") == text.npos;
}

template <class Part>
void load_part(const char*& from, Part& part) {
  std::memcpy(&part, from, sizeof part);
  from += sizeof part;
}

// Calls use(number) for each number that the state of a column has.
template <class Column, class Value, class Use>
void for_numbers(const Column& column, Value& value, Use use) {
  if (column.sum) use(value.sum);
  if (column.min) use(value.min);
  if (column.max) use(value.max);
}

template <class Part>
void store_part(const Part& part, char*& to) {
  std::memcpy(to, &part, sizeof part);
  to += sizeof part;
}

}  // namespace

// ---- Results.

Result<GroupColumns> GroupColumns::make(const Aggregates& aggregates,
                                        const std::vector<std::string>& values,
                                        const std::vector<std::string>& results,
                                        const std::string& number_format) {
  const bool sums = aggregates.sum || aggregates.min || aggregates.max;
  if (sums != !values.empty())
    return misuse("sum up values", sums ? "--sum" : "--value",
                  sums ? "--value COLUMN, or --count" : "--sum, --min or --max");
  GroupColumns made;
  if (!number_format.empty()) {
    auto numbers = items::NumberFormat::parse(number_format);
    if (!numbers) return std::unexpected(numbers.error());
    made.numbers_ = std::move(*numbers);
    made.is_narrow_ = false;
  }
  for (const std::string& value : values) {
    auto add = [&](bool asked, Function function, const char* prefix) {
      if (asked)
        made.add_result({.function = function, .prefix = prefix}, value, "--value " + value);
    };
    add(aggregates.sum, Function::sum, "sum_");
    add(aggregates.min, Function::min, "min_");
    add(aggregates.max, Function::max, "max_");
  }
  for (const std::string& word : results) {
    if (auto status = made.add_word(word); !status) return std::unexpected(status.error());
  }
  made.more_.resize(made.size());
  made.texts_.resize(made.size());
  made.narrow_.resize(made.size());
  for (const Column& column : made.columns_)
    made.is_narrow_ &= column.is_number && !column.squares && !column.first && !column.last;
  return made;
}

// Adds the result that a word such as "sum=price" or "quantile=0.9:price" asks for.
Status GroupColumns::add_word(const std::string& word) {
  const size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  const auto found =
      std::ranges::find(functions, name, &std::pair<std::string_view, Function>::first);
  if (found == functions.end() || equals == word.npos)
    return misuse("compute this of a column", word, some_words);
  ColumnResult result{.function = found->second, .prefix = name + "_"};
  std::ranges::replace(result.prefix, '-', '_');
  std::string column = word.substr(equals + 1);
  std::string option = "--" + word;
  if (result.function == Function::median) result.fraction = {5, 1};
  if (result.function == Function::quantile) {
    option.replace(option.find('='), 1, " ");
    const size_t colon = column.find(':');
    const auto fraction = fraction_of(column.substr(0, colon));
    if (!fraction)
      return misuse("read this as a quantile", option,
                    "a number from 0 to 1 and a column, as in --quantile 0.9:price");
    if (colon == column.npos)
      return misuse("find the column of this quantile", option, option + ":COLUMN");
    result.fraction = *fraction;
    result.prefix += column.substr(0, colon) + "_";
    column.erase(0, colon + 1);
  }
  if (column.empty()) return misuse("find its column", option, some_words);
  add_result(std::move(result), column, option);
  return {};
}

void GroupColumns::add_result(ColumnResult result, const std::string& name,
                              const std::string& option) {
  const auto found = std::ranges::find(columns_, name, &Column::name);
  result.column = static_cast<size_t>(found - columns_.begin());
  if (found == columns_.end()) columns_.push_back({.name = name, .option = option});
  Column& column = columns_[result.column];
  const Function function = result.function;
  const bool is_quantile = function == Function::median || function == Function::quantile;
  const bool is_text = function == Function::first || function == Function::last ||
                       function == Function::count_distinct;
  column.is_number |= !is_text;
  column.first |= function == Function::first;
  column.last |= function == Function::last;
  column.min |= function == Function::min;
  column.max |= function == Function::max;
  column.squares |= function == Function::stddev;
  // A sum has the places of its numbers, and finds those that have too many digits together.
  column.sum |= !is_text && function != Function::min && function != Function::max;
  column.count |= column.squares || is_quantile || function == Function::mean;
  if (is_quantile || function == Function::count_distinct)
    result.list = list_of(result.column, is_quantile);
  results_.push_back(std::move(result));
}

size_t GroupColumns::list_of(size_t column, bool numbers) {
  for (size_t i = 0; i < lists_.size(); ++i) {
    if (lists_[i].column == column && lists_[i].numbers == numbers) return i;
  }
  lists_.push_back({column, numbers});
  return lists_.size() - 1;
}

Status GroupColumns::find(const std::vector<std::string>& header) {
  for (Column& column : columns_) {
    auto found = items::column_of(column.name, header, column.option);
    if (!found) return std::unexpected(found.error());
    column.number = *found;
  }
  return {};
}

Status GroupColumns::find_members() {
  for (Column& column : columns_) {
    auto path = items::json_path_of(column.name, column.option);
    if (!path) return std::unexpected(path.error());
    column.number = members_.size();
    members_.push_back(std::move(*path));
  }
  return {};
}

std::string GroupColumns::name_of(const ColumnResult& result,
                                  const std::vector<std::string>& header) const {
  if (!members_.empty())
    return fmt::format("{}{}", result.prefix, fmt::join(members_[result.column], "."));
  const size_t number = columns_[result.column].number;
  return result.prefix + (number < header.size() ? header[number] : std::to_string(number + 1));
}

std::unexpected<Error> GroupColumns::too_long(size_t column) const {
  return failure(ErrorCode::unsupported, "add up numbers to one of more than 38 digits",
                 columns_[column].option, "--count, --min or --max");
}

// ---- State.

size_t GroupColumns::bytes_of(const Column& column, const Value& value) {
  size_t bytes =
      1 + (column.count ? sizeof value.count : 0) + (column.squares ? sizeof value.squares : 0);
  bytes += value.is_wide
               ? column.sum * sizeof value.sum + (column.min + column.max) * sizeof(Decimal)
               : narrow_bytes_of(column);
  if (column.first) bytes += slot_head_bytes + value.first.room;
  if (column.last) bytes += slot_head_bytes + value.last.room;
  return bytes;
}

size_t GroupColumns::empty_bytes() const {
  size_t bytes = 0;
  for (const Column& column : columns_) bytes += bytes_of(column, {});
  return bytes;
}

const char* GroupColumns::end_of(const char* state) const {
  Value value;
  for (const Column& column : columns_) load(column, state, value);
  return state;
}

// Loads the state of a column and moves `from` to that of the next one. Texts stay where they are.
void GroupColumns::load(const Column& column, const char*& from, Value& value) {
  const char bits = *from++;
  value.any = (bits & any_bit) != 0;
  value.is_wide = (bits & wide_bit) != 0;
  auto load_number = [&]<class Number>(Number& number) {
    if (value.is_wide) return load_part(from, number);
    number = Number::of(NarrowDecimal::at(from));
    from += NarrowDecimal::bytes;
  };
  auto load_slot = [&](Slot& slot) {
    uint32_t bytes = 0;
    load_part(from, bytes);
    load_part(from, slot.room);
    slot.text = {from, bytes};
    from += slot.room;
  };
  if (column.count) load_part(from, value.count);
  if (column.squares) load_part(from, value.squares);
  if (column.sum) load_number(value.sum);
  if (column.min) load_number(value.min);
  if (column.max) load_number(value.max);
  if (column.first) load_slot(value.first);
  if (column.last) load_slot(value.last);
}

// Stores the state of a column and moves `to` behind it. REQUIRES: it is wide, or its numbers are
// narrow; texts have room.
void GroupColumns::store(const Column& column, const Value& value, char*& to) {
  *to++ = static_cast<char>((value.any ? any_bit : 0) | (value.is_wide ? wide_bit : 0));
  auto store_number = [&](const auto& number) {
    if (value.is_wide) return store_part(number, to);
    number.narrow()->store(to);
    to += NarrowDecimal::bytes;
  };
  auto store_slot = [&](const Slot& slot) {
    store_part(static_cast<uint32_t>(slot.text.size()), to);
    store_part(slot.room, to);
    if (!slot.text.empty()) std::memmove(to, slot.text.data(), slot.text.size());
    to += slot.room;
  };
  if (column.count) store_part(value.count, to);
  if (column.squares) store_part(value.squares, to);
  if (column.sum) store_number(value.sum);
  if (column.min) store_number(value.min);
  if (column.max) store_number(value.max);
  if (column.first) store_slot(value.first);
  if (column.last) store_slot(value.last);
}

bool GroupColumns::numbers_have_room(const Column& column, const Value& value, const Value& more) {
  if (value.is_wide || !more.any) return true;
  if (column.sum) {
    const auto sum = more.sum.narrow();
    if (!sum || (value.any && !value.sum.narrow()->can_add(*sum))) return false;
  }
  return (!column.min || more.min.narrow()) && (!column.max || more.max.narrow());
}

namespace {

// The text of a first or last value after another one came.
template <class Slot>
std::string_view first_of(const Slot& slot, const Slot& more) {
  return slot.text.empty() ? more.text : slot.text;
}
template <class Slot>
std::string_view last_of(const Slot& slot, const Slot& more) {
  return more.text.empty() ? slot.text : more.text;
}

}  // namespace

bool GroupColumns::has_room(const char* state) const {
  Value value;
  for (size_t i = 0; i < size(); ++i) {
    load(columns_[i], state, value);
    if (!numbers_have_room(columns_[i], value, more_[i])) return false;
    if (columns_[i].first && first_of(value.first, more_[i].first).size() > value.first.room)
      return false;
    if (columns_[i].last && last_of(value.last, more_[i].last).size() > value.last.room)
      return false;
  }
  return true;
}

void GroupColumns::grow(const char* state, std::string& to) const {
  // A last value may become longer often, so its room doubles.
  auto make_room = [](Slot& slot, std::string_view text) {
    if (text.size() > slot.room)
      slot.room = static_cast<uint32_t>(std::bit_ceil(std::max(text.size(), slot_room_min)));
  };
  for (size_t i = 0; i < size(); ++i) {
    Value value;
    load(columns_[i], state, value);
    value.is_wide |= !numbers_have_room(columns_[i], value, more_[i]);
    make_room(value.first, first_of(value.first, more_[i].first));
    make_room(value.last, last_of(value.last, more_[i].last));
    const size_t before = to.size();
    to.resize(before + bytes_of(columns_[i], value));
    char* at = to.data() + before;
    store(columns_[i], value, at);
  }
}

// ---- Values.

Status GroupColumns::set(size_t number, std::string_view text, const items::JsonValue* member) {
  const Column& column = columns_[number];
  Value& value = more_[number];
  value.any = false;
  value.first.text = value.last.text = {};
  if (is_blank(text)) {
    ++empty_values_;
    return {};
  }
  if (column.first || column.last) {
    texts_[number] = member != nullptr ? member->written : text;
    value.first.text = value.last.text = texts_[number];
  }
  if (!column.is_number) return {};
  if (numbers_ && is_nan(text)) {
    ++empty_values_;
    return {};
  }
  const auto parsed = items::decimal_of(text, number_format(member));
  if (!parsed) {
    bad_value_ = BadValue{column.name, column.number, std::string(text)};
    return failure(ErrorCode::corrupt, "read a number", "group");
  }
  value.any = true;
  value.count = 1;
  if (column.squares) value.squares = SquareSum(*parsed);
  if (column.sum) value.sum = DecimalSum(*parsed);
  if (column.min) value.min = *parsed;
  if (column.max) value.max = *parsed;
  return {};
}

void GroupColumns::set_all(const char* state) {
  empty_values_ = 0;
  for (size_t i = 0; i < size(); ++i) load(columns_[i], state, more_[i]);
}

// Loads the state of a column and moves `from` to that of the next one; empty if it is wide, or has
// no numbers.
std::optional<GroupColumns::NarrowValue> GroupColumns::narrow_at(const Column& column,
                                                                 const char*& from) {
  NarrowValue value;
  if (*from++ != any_bit) return {};
  if (column.count) load_part(from, value.count);
  for_numbers(column, value, [&](NarrowDecimal& number) {
    number = NarrowDecimal::at(from);
    from += NarrowDecimal::bytes;
  });
  return value;
}

// Returns whether add() may add the value to the state of a column, and moves `to` to that of the
// next one.
bool GroupColumns::can_add(const Column& column, const char*& to, const NarrowValue& value) {
  const char bits = *to++;
  bool can = (bits & ~any_bit) == 0;
  if (column.count) to += sizeof value.count;
  for_numbers(column, value, [&](const NarrowDecimal& number) {
    const auto into = NarrowDecimal::at(to);
    to += NarrowDecimal::bytes;
    can = can && (bits == 0 || (into.places == number.places && into.can_add(number)));
  });
  return can;
}

void GroupColumns::add(const Column& column, const NarrowValue& value, char*& to) {
  const bool is_first = *to == 0;
  *to++ = any_bit;
  if (column.count) store_part(items::load<uint64_t>(to) + value.count, to);
  auto add_number = [&](bool asked, const NarrowDecimal& number, auto combine) {
    if (!asked) return;
    (is_first ? number : combine(NarrowDecimal::at(to), number)).store(to);
    to += NarrowDecimal::bytes;
  };
  add_number(column.sum, value.sum, [](NarrowDecimal sum, const NarrowDecimal& number) {
    sum.digits += number.digits;
    sum.whole_digits = std::max(sum.whole_digits, number.whole_digits);
    return sum;
  });
  add_number(column.min, value.min, [](const NarrowDecimal& min, const NarrowDecimal& number) {
    return number.digits < min.digits ? number : min;
  });
  add_number(column.max, value.max, [](const NarrowDecimal& max, const NarrowDecimal& number) {
    return number.digits > max.digits ? number : max;
  });
}

bool GroupColumns::add_narrow_values(char* state) const {
  const char* at = state;
  for (size_t i = 0; i < size(); ++i) {
    if (!can_add(columns_[i], at, narrow_[i])) return false;
  }
  for (size_t i = 0; i < size(); ++i) add(columns_[i], narrow_[i], state);
  return true;
}

bool GroupColumns::add_narrow(char* state, const char* other) {
  if (!is_narrow_) return false;
  for (size_t i = 0; i < size(); ++i) {
    const auto value = narrow_at(columns_[i], other);
    if (!value) return false;
    narrow_[i] = *value;
  }
  return add_narrow_values(state);
}

Status GroupColumns::add(char* state) {
  for (size_t i = 0; i < size(); ++i) {
    const Column& column = columns_[i];
    const Value& more = more_[i];
    const char* from = state;
    Value value;
    load(column, from, value);
    value.first.text = first_of(value.first, more.first);
    value.last.text = last_of(value.last, more.last);
    if (more.any && !value.any) {
      value.any = true;
      value.count = more.count;
      value.squares = more.squares;
      value.sum = more.sum;
      value.min = more.min;
      value.max = more.max;
    } else if (more.any) {
      if (column.sum && !value.sum.add(more.sum)) return too_long(i);
      value.count += more.count;
      if (column.squares) value.squares.add(more.squares);
      if (column.min && more.min.compare(value.min) < 0) value.min = more.min;
      if (column.max && more.max.compare(value.max) > 0) value.max = more.max;
    }
    store(column, value, state);
  }
  return {};
}

// ---- Fields of a result.

GroupColumns::Value GroupColumns::value_of(const char* state, size_t column) const {
  Value value;
  for (size_t i = 0; i <= column; ++i) load(columns_[i], state, value);
  return value;
}

GroupColumns::Numbers GroupColumns::numbers_of(const char* state, size_t column) const {
  const Value value = value_of(state, column);
  return {value.any ? value.count : 0, value.sum.places()};
}

Status GroupColumns::for_results(const char* state, std::span<const std::string> of_values,
                                 const std::function<void(size_t, std::string_view)>& add) const {
  Value value;
  std::string text;
  for (size_t i = 0; i < results_.size(); ++i) {
    const ColumnResult& result = results_[i];
    if (i == 0 || result.column != results_[i - 1].column) value = value_of(state, result.column);
    text.clear();
    std::optional<Decimal> number;
    bool is_number = value.any;
    switch (result.function) {
      case Function::sum:
        number = value.sum.total();
        break;
      case Function::min:
        number = value.min;
        break;
      case Function::max:
        number = value.max;
        break;
      case Function::mean:
        if (value.any) number = items::quotient(value.sum.wide(), value.count, value.sum.places());
        break;
      case Function::stddev:
        is_number &= value.count > 1;
        if (is_number) number = items::sample_deviation(value.sum, value.squares, value.count);
        break;
      case Function::first:
      case Function::last:
        text = result.function == Function::first ? value.first.text : value.last.text;
        is_number = false;
        break;
      case Function::count_distinct:
      case Function::median:
      case Function::quantile:
        text = of_values[i];
        is_number = false;
        break;
    }
    if (is_number && !number) return too_long(result.column);
    if (is_number) number->append_to(text);
    add(i, text);
  }
  return {};
}

}  // namespace penstock::files
