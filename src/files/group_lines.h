#pragma once

// Groups of lines and of rows of CSV: what is kept of each group, and how its result is written.
//
// A partial is a row (record/keyed_rows.h). Its key is the bytes that the order of lines makes; its payload:
//
//   bytes                    what
//   8                        the count
//   1                        of each value: whether a number was there
//     + 32 + 20 + 20         the sum, the minimum and the maximum
//   the rest                 the text that the result shows of the group's first line: its keys, of `distinct` all of
//                            it; nothing where the key's bytes are that text
//
// Count, sum, minimum and maximum are there only if they were asked for.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/files.h"
#include "record/decimal.h"
#include "record/fields.h"
#include "record/items.h"

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
  static Result<std::shared_ptr<GroupLines>> make(const record::Format& format,
                                                  const Aggregates& aggregates,
                                                  const GroupLinesOptions& options);

  // Looks up keys and values in the head of the inputs. `format`: with the keys that it names. Errors:
  // invalid_argument, where it has no such column.
  Status begin(const record::Format& format, const std::string& head);
  // The header in front of the results.
  const std::string& head() const { return head_; }

  std::string_view key_of_item(std::string_view item, std::string& room) const {
    return order_.key(item, room);
  }
  uint64_t count_of_partial(std::string_view partial) const;
  // Bytes that a partial has beside its key and the text.
  size_t fixed_bytes() const { return RowHead::bytes + aggregates_bytes_; }

  // Errors, of these three: corrupt, where a value is no number, which bad_value() tells; unsupported, where
  // a sum has too many digits.
  Status make_partial(std::string_view item, std::string_view key, std::string& to);
  Status add_item(char* partial, std::string_view item);
  Status add_partial(char* partial, std::string_view other);
  const std::optional<BadValue>& bad_value() const { return bad_value_; }

  // Appends the result of a group. A line has the count, the text of each key as the first line has it, and the sum, minimum
  // and maximum of each value, with the separator or tabs between them; a row has the keys, the count, the values.
  // Errors: unsupported, where a sum has too many digits.
  Status append_result(std::string_view partial, std::string& to) const;

 private:
  // The aggregates of one value.
  struct Value {
    bool any = false;
    record::DecimalSum sum;
    record::Decimal min, max;
  };

  GroupLines(const record::Format& format, const Aggregates& aggregates,
             const GroupLinesOptions& options);
  template <class Copy>
  void for_parts(Value& value, Copy copy) const;
  Value load_value(const char*& from) const;
  Status add_value(size_t i, const Value& more, char*& at) const;
  std::unexpected<Error> too_long(size_t i) const;
  void set_order(const record::Format& format);
  std::string head_of(std::string_view header, const std::vector<std::string>& columns) const;
  void append_keys(std::string_view line, std::string& to) const;
  // Without its end, and of rows without a carriage return there.
  std::string_view without_end(std::string_view line) const;
  std::string end_of(std::string_view line) const;
  char* aggregates_of(char* partial) const {
    return partial + RowHead::bytes + RowHead::at(partial).key_bytes;
  }

  record::ItemOrder order_;
  const Aggregates aggregates_;
  const GroupLinesOptions options_;
  const record::FieldStyle style_;
  const char separator_;
  size_t aggregates_bytes_ = 0;
  bool shows_key_ = false;       // the result shows the key's bytes
  std::vector<size_t> columns_;  // of the values
  std::string head_;
  std::string end_;  // of the results, as of the first line; empty: no line was there yet
  std::optional<BadValue> bad_value_;
  std::vector<std::string_view> fields_;
  std::string room_;
};

}  // namespace penstock::files
