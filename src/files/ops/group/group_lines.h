#pragma once

// Groups of lines and of rows of CSV: their partials and results.
//
// A partial is a row (items/framing/keyed_rows.cc). Its key is the key bytes of the order of lines;
// its payload:
//
//   bytes                    content
//   8                        the count
//   1                        for each value: two bits, "has a number" and "is wide"
//     + 10 + 10 + 10         narrow: the sum, the minimum and the maximum, while they have few digits
//     + 32 + 32 + 32         or wide
//   the rest                 the text of the group's first line that the result shows: its keys, or with `distinct` all of
//                            it; empty if that text is the key bytes
//
// Count, sum, minimum and maximum are only present if they were requested.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/bowtie/computations.h"
#include "items/decimal.h"
#include "items/fields.h"
#include "items/items.h"
#include "items/keys/text/key_place.h"
#include "penstock/files.h"

namespace penstock::files {

using penstock::Aggregates;

struct GroupLinesOptions {
  std::optional<char> separator = {};  // between fields; empty: blanks
  // The fields or columns that are aggregated: "3", "price". Empty fields are ignored.
  std::vector<std::string> values = {};
};

// A field that is not a number.
struct BadValue {
  std::string name;  // the field in the words of the options
  size_t column = 0;
  std::string text;
};

// Thread safety: one thread.
class GroupLines {
 public:
  static Result<std::shared_ptr<GroupLines>> make(const items::Format& format,
                                                  const Aggregates& aggregates,
                                                  const GroupLinesOptions& options);

  // Finds the columns of keys and values in the head of the inputs. `format`: with the keys that
  // the head names. Errors: invalid_argument if there is no such column.
  Status begin(const items::Format& format, const std::string& head);
  // The header in front of the results.
  const std::string& head() const { return head_; }

  // The columns that rows of CSV need to be indexed by (bowtie::BatchReader).
  const std::vector<size_t>& columns() const { return columns_; }
  std::string_view key_of_item(const bowtie::Items& items, size_t i, std::string& room) const {
    if (key_column_) return items.field(i, *key_column_, room);
    return text_key_ ? items::place_of(*text_key_, without_end(items[i]), text_separator_)
                     : order_.key(items[i], room);
  }
  uint64_t count_of_partial(std::string_view partial) const;
  // Bytes of a narrow partial beside its key and text.
  size_t fixed_bytes() const { return RowHead::bytes + narrow_bytes_; }

  // Writes the partial of item `i` to `to`. Errors of this, add_item() and add_partial(): corrupt
  // if a value is not a number (then bad_value() is set); unsupported if a sum has too many digits.
  Status make_partial(const bowtie::Items& items, size_t i, std::string_view key, std::string& to);
  // Adds an item, or a partial, of the same key. Returns false and changes nothing if the partial
  // has to be widened first.
  Result<bool> add_item(char* partial, const bowtie::Items& items, size_t i);
  Result<bool> add_partial(char* partial, std::string_view other);
  // Writes the partial to `to` with room for any numbers.
  void widen(std::string_view partial, std::string& to) const;
  const std::optional<BadValue>& bad_value() const { return bad_value_; }
  void set_bad_value(const std::optional<BadValue>& bad) { bad_value_ = bad; }
  // Sets the line end of the results to that of the first line of all, if it is not set yet.
  void note_first(std::string_view line) {
    if (end_.empty()) end_ = end_of(line);
  }

  // Appends the result of a group. A line has the count, the text of each key in the first line,
  // and the sum, minimum and maximum of each value, with the separator or tabs between them; a row
  // has the keys, the count, the values. Errors: unsupported if a sum has too many digits.
  Status append_result(std::string_view partial, std::string& to) const;

 private:
  // The aggregates of one value.
  struct Value {
    bool any = false;
    bool is_wide = false;
    items::DecimalSum sum;
    items::Decimal min, max;
  };

  GroupLines(const items::Format& format, const Aggregates& aggregates,
             const GroupLinesOptions& options);
  void load_value(const char*& from, Value& value) const;
  void store_value(const Value& value, char*& to) const;
  size_t value_bytes(bool is_wide) const;
  bool has_room(const char* value, const Value& more) const;
  const char* end_of_values(const char* from) const;
  Status read_value(std::string_view text, size_t i, Value& value);
  Status add_value(size_t i, const Value& more, Value& value) const;
  std::string_view text_of(const bowtie::Items& items, size_t i, size_t value);
  bool add_narrow(char* partial, const bowtie::Items& items, size_t i);
  Result<bool> add(char* partial, uint64_t count);
  std::unexpected<Error> too_long(size_t i) const;
  void set_order(const items::Format& format);
  void find_columns();
  std::string head_of(std::string_view header, const std::vector<std::string>& columns) const;
  void append_keys(std::string_view line, std::string& to) const;
  // The line without its end, and a row without its carriage return.
  std::string_view without_end(std::string_view line) const;
  std::string end_of(std::string_view line) const;
  char* aggregates_of(char* partial) const {
    return partial + RowHead::bytes + RowHead::at(partial).key_bytes;
  }

  items::ItemOrder order_;
  const Aggregates aggregates_;
  const GroupLinesOptions options_;
  const items::FieldStyle style_;
  const char separator_;
  size_t narrow_bytes_ = 0;  // size of narrow aggregates
  bool shows_key_ = false;   // results show the key bytes
  std::vector<size_t> value_columns_;
  std::vector<size_t> columns_;       // columns of values and key in a row, ascending
  std::vector<size_t> value_fields_;  // indices of the values in columns_
  std::optional<size_t> key_column_ =
      {};  // index of the key in columns_; empty: the key is made, or no column
  std::optional<items::TextKey>
      text_key_;  // the only key of lines, if its bytes are a part of the line
  std::optional<char> text_separator_;
  std::vector<Value> more_;                   // the values that add() adds
  std::vector<items::NarrowDecimal> narrow_;  // the numbers that add_narrow() adds
  std::string head_;
  std::string end_;  // line end of the results: the first line's; empty before it
  std::optional<BadValue> bad_value_;
  std::vector<std::string_view> fields_;
  std::string room_;
};

}  // namespace penstock::files
