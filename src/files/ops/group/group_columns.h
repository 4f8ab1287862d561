#pragma once

// The columns of lines and rows that a group aggregates: their state in a partial, and their fields
// of a result.
//
//   bytes                    state of a column, one behind the other
//   1                        two bits, "has a number" and "is wide"
//   8                        the number of numbers
//   72                       the sum of their squares
//   10 + 10 + 10             narrow: sum, minimum and maximum, while they have few digits
//     or 32 + 32 + 32        or wide
//   4 + 4 + room             the text of the first value: its bytes, its room, and the text in it
//   4 + 4 + room             that of the last value
//
// A part is only there if a result needs it. Medians, quantiles and the number of different values
// have no state of fixed size: group_values.h.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "items/decimal.h"
#include "items/json.h"
#include "items/keys/values/numbers.h"
#include "items/quotient.h"
#include "penstock/base.h"
#include "penstock/files.h"

namespace penstock::files {

using penstock::Aggregates;

enum class Function : uint8_t {
  sum,
  min,
  max,
  mean,
  first,
  last,
  count_distinct,
  stddev,
  median,
  quantile
};

// A field of a result.
struct ColumnResult {
  Function function = Function::sum;
  size_t column = 0;                // index in GroupColumns::columns()
  std::string prefix;               // the beginning of its name, "sum_"
  items::Decimal fraction = {};     // the part below a quantile or median
  std::optional<size_t> list = {};  // index in GroupColumns::lists(), if it needs one

  bool of_values() const { return list.has_value(); }
};

// A column whose different values are partials of their own.
struct ValueList {
  size_t column = 0;     // index in GroupColumns::columns()
  bool numbers = false;  // equal numbers are one value, as 1 and 1.0; else equal texts
};

// A field that is not a number.
struct BadValue {
  std::string name;  // the column in the words of the options
  size_t column = 0;
  std::string text;
};

// Thread safety: one thread; of const members any.
class GroupColumns {
 public:
  // `values`: the columns of the flags in `aggregates`. `results`: "sum=price",
  // "quantile=0.9:price". Errors: invalid_argument.
  static Result<GroupColumns> make(const Aggregates& aggregates,
                                   const std::vector<std::string>& values,
                                   const std::vector<std::string>& results,
                                   const std::string& number_format = {});

  // Finds the columns in a header. Errors: invalid_argument.
  Status find(const std::vector<std::string>& header);
  // Reads their names as paths of members, whose indices are then their numbers.
  Status find_members();
  const std::vector<items::JsonPath>& members() const { return members_; }
  size_t size() const { return columns_.size(); }
  // The 0-based columns of the table, after find().
  size_t number(size_t column) const { return columns_[column].number; }
  const std::vector<ColumnResult>& results() const { return results_; }
  // The name of a result's field.
  std::string name_of(const ColumnResult& result, const std::vector<std::string>& header) const;
  const std::vector<ValueList>& lists() const { return lists_; }

  // Bytes of the state of a group without values, all zeros.
  size_t empty_bytes() const;
  const char* end_of(const char* state) const;
  // Adds numbers of few digits, text_of(column), to narrow ones with the same places, the common
  // case. Returns false and changes nothing if a number or the state is not of that kind.
  template <class TextOf>
  bool add_narrow(char* state, TextOf text_of);
  // Adds the numbers of another state likewise.
  bool add_narrow(char* state, const char* other);
  // Sets the value that add() adds. `member`: that of a JSON line which has the text, or nullptr.
  // Errors: corrupt if it is not a number (then bad_value() is set).
  Status set(size_t column, std::string_view text, const items::JsonValue* member);
  // Returns the format of a number, or nullptr: numbers of JSON have their own.
  const items::NumberFormat* number_format(const items::JsonValue* member) const {
    const bool is_json = member != nullptr && member->type == items::JsonType::number;
    return numbers_ && !is_json ? &*numbers_ : nullptr;
  }
  // Sets all values to those of another state, which has to stay.
  void set_all(const char* state);
  // Returns whether the values fit in the state; else they do in one that grow() makes.
  bool has_room(const char* state) const;
  // Appends the state with more room.
  void grow(const char* state, std::string& to) const;
  // Adds the values. REQUIRES: has_room(). Errors: unsupported if a sum has too many digits.
  Status add(char* state);

  // Calls `add` with the index and the text of each result. `of_values`: the texts of those that lists make, by
  // result. Errors: unsupported if one has too many digits.
  Status for_results(const char* state, std::span<const std::string> of_values,
                     const std::function<void(size_t, std::string_view)>& add) const;
  // The number of numbers of a column, and their places.
  struct Numbers {
    uint64_t count = 0;
    unsigned places = 0;
  };
  Numbers numbers_of(const char* state, size_t column) const;
  std::unexpected<Error> too_long(size_t column) const;

  // The fields without a value among those that set() took last.
  unsigned empty_values() const { return empty_values_; }
  void reset_empty_values() { empty_values_ = 0; }
  const std::optional<BadValue>& bad_value() const { return bad_value_; }
  void set_bad_value(const std::optional<BadValue>& bad) { bad_value_ = bad; }

 private:
  struct Column {
    std::string name;    // in the words of the options
    std::string option;  // the word that named it
    size_t number = 0;
    bool is_number = false;
    bool count = false, squares = false, sum = false, min = false, max = false;
    bool first = false, last = false;
  };
  // A text in a state.
  struct Slot {
    std::string_view text;
    uint32_t room = 0;
  };
  struct Value {
    bool any = false;
    bool is_wide = false;
    uint64_t count = 0;
    items::SquareSum squares;
    items::DecimalSum sum;
    items::Decimal min, max;
    Slot first, last;
  };

  // Numbers of few digits, and how many they are.
  struct NarrowValue {
    uint64_t count = 0;
    items::NarrowDecimal sum, min, max;
  };

  GroupColumns() = default;
  Status add_word(const std::string& word);
  void add_result(ColumnResult result, const std::string& name, const std::string& option);
  size_t list_of(size_t column, bool numbers);
  static size_t bytes_of(const Column& column, const Value& value);
  static size_t narrow_bytes_of(const Column& column) {
    return items::NarrowDecimal::bytes * (column.sum + column.min + column.max);
  }
  static void load(const Column& column, const char*& from, Value& value);
  Value value_of(const char* state, size_t column) const;
  static void store(const Column& column, const Value& value, char*& to);
  static std::optional<NarrowValue> narrow_at(const Column& column, const char*& from);
  static bool can_add(const Column& column, const char*& to, const NarrowValue& value);
  static void add(const Column& column, const NarrowValue& value, char*& to);
  bool add_narrow_values(char* state) const;
  static bool numbers_have_room(const Column& column, const Value& value, const Value& more);

  std::vector<Column> columns_;
  std::vector<items::JsonPath> members_;  // paths in JSON lines, by column
  std::vector<ColumnResult> results_;
  std::vector<ValueList> lists_;
  std::optional<items::NumberFormat> numbers_;
  bool is_narrow_ = true;            // add_narrow() knows all parts of the state
  std::vector<Value> more_;          // the values that add() adds
  std::vector<std::string> texts_;   // those of items
  std::vector<NarrowValue> narrow_;  // those that add_narrow() adds
  unsigned empty_values_ = 0;
  std::optional<BadValue> bad_value_;
};

template <class TextOf>
bool GroupColumns::add_narrow(char* state, TextOf text_of) {
  if (!is_narrow_) return false;
  for (size_t i = 0; i < columns_.size(); ++i) {
    const auto number = items::NarrowDecimal::parse(text_of(i));
    if (!number) return false;
    narrow_[i] = {.count = 1, .sum = *number, .min = *number, .max = *number};
  }
  empty_values_ = 0;
  return add_narrow_values(state);
}

}  // namespace penstock::files
