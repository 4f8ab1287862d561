#pragma once

// Groups of lines and of rows of CSV: what is kept of each group, and how its result is written.
//
// A partial is a row (items/framing/keyed_rows.cc). Its key is the bytes that the order of lines makes; its payload:
//
//   bytes                    what
//   8                        the count
//   1                        of each value: whether a number was there, and whether what follows is wide
//     + 10 + 10 + 10         the sum, the minimum and the maximum, while they have few digits
//     + 32 + 32 + 32         or these wide
//   the rest                 the text that the result shows of the group's first line: its keys, of `distinct` all of
//                            it; nothing where the key's bytes are that text
//
// Count, sum, minimum and maximum are there only if they were asked for.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/bowtie/computations.h"
#include "items/decimal.h"
#include "items/fields.h"
#include "items/items.h"
#include "penstock/files.h"

namespace penstock::files {

using penstock::Aggregates;

struct GroupLinesOptions {
  std::optional<char> separator = {};  // of fields; none: blanks
  // What sum, min and max are of: fields or columns, "3", "price". Empty ones count for nothing.
  std::vector<std::string> values = {};
};

// A text that is no number.
struct BadValue {
  std::string name;  // as the options have it
  size_t column = 0;
  std::string text;
};

// Thread safety: one thread.
class GroupLines {
 public:
  static Result<std::shared_ptr<GroupLines>> make(const items::Format& format,
                                                  const Aggregates& aggregates,
                                                  const GroupLinesOptions& options);

  // Looks up keys and values in the head of the inputs. `format`: with the keys that it names. Errors:
  // invalid_argument, where it has no such column.
  Status begin(const items::Format& format, const std::string& head);
  // The header in front of the results.
  const std::string& head() const { return head_; }

  // The columns of rows of CSV that items need to have (bowtie::BatchReader).
  const std::vector<size_t>& columns() const { return columns_; }
  std::string_view key_of_item(const bowtie::Items& items, size_t i, std::string& room) const {
    return key_column_ ? items.field(i, *key_column_, room) : order_.key(items[i], room);
  }
  uint64_t count_of_partial(std::string_view partial) const;
  // Bytes that a narrow partial has beside its key and the text.
  size_t fixed_bytes() const { return RowHead::bytes + narrow_bytes_; }

  // The partial of item `i`, in `to`. Errors of this, add_item() and join(): corrupt, where a value is no
  // number, which bad_value() tells; unsupported, where a sum has too many digits.
  Status make_partial(const bowtie::Items& items, size_t i, std::string_view key, std::string& to);
  // False, and nothing has changed: the partial needs to be wide.
  Result<bool> add_item(char* partial, const bowtie::Items& items, size_t i);
  Result<bool> add_partial(char* partial, std::string_view other);
  // The partial, in `to`, with room for any numbers.
  void widen(std::string_view partial, std::string& to) const;
  const std::optional<BadValue>& bad_value() const { return bad_value_; }

  // Appends the result of a group. A line has the count, the text of each key as the first line has it, and the sum, minimum
  // and maximum of each value, with the separator or tabs between them; a row has the keys, the count, the values.
  // Errors: unsupported, where a sum has too many digits.
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
  // Without its end, and of rows without a carriage return there.
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
  size_t narrow_bytes_ = 0;  // of the aggregates
  bool shows_key_ = false;   // the result shows the key's bytes
  std::vector<size_t> value_columns_;
  std::vector<size_t> columns_;            // of rows, ascending: those of the values and of the key
  std::vector<size_t> value_fields_;       // where the values' columns are among these
  std::optional<size_t> key_column_ = {};  // where the key's is; empty: it is no field's value
  std::vector<Value> more_;                // what add() adds
  std::vector<items::NarrowDecimal> narrow_;  // what add_narrow() adds
  std::string head_;
  std::string end_;  // of the results, as of the first line; empty: no line was there yet
  std::optional<BadValue> bad_value_;
  std::vector<std::string_view> fields_;
  std::string room_;
};

}  // namespace penstock::files
