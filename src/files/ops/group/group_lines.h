#pragma once

// Groups of lines, of rows of CSV and of JSON lines: their partials and results.
//
// A partial is a row (items/framing/keyed_rows.cc). Its key is the key bytes of the order of lines;
// its payload:
//
//   bytes                    content
//   1                        number of the list of values, plus 1; 0: a group. Only if there are
//                            lists (group_values.h)
//   8                        the position, if results keep the order of the input (big-endian)
//   8                        the count, if it was requested, or decides which groups are kept
//   group_columns.h          the state of the columns that are aggregated
//   the rest                 the text of the group's first line that the result shows: its keys, or
//                            with `distinct` all of it; empty if that text is the key bytes
//
// The partial of a value has only the first byte and, in a list of numbers, 8 bytes of its count.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/bowtie/computations.h"
#include "files/ops/group/group_columns.h"
#include "files/ops/group/group_values.h"
#include "items/fields.h"
#include "items/items.h"
#include "items/keys/json_order.h"
#include "items/keys/text/key_place.h"
#include "penstock/files.h"

namespace penstock::files {

struct GroupLinesOptions {
  std::optional<char> separator = {};  // between fields; empty: blanks
  // The fields or columns of the aggregates that are flags: "3", "price". Empty fields are ignored.
  std::vector<std::string> values = {};
  // The results of single columns: "mean=price" (GroupFilesOptions::results).
  std::vector<std::string> results = {};
  std::string number_format = {};  // items::NumberFormat; empty: decimal digits
  bool total = false;              // all items are one group, without a key
  // Partials have a position: a number that is greater the later the first item of its key came.
  bool positions = false;
};

// The fields of a line, or the members of a JSON line that are columns.
struct LineFields {
  std::vector<std::string_view> texts;
  std::vector<items::JsonValue> members;
  std::vector<std::string> rooms;  // for texts
};

// Memory in which the keys of an item are made.
struct KeyScratch {
  std::string key;
  std::string value;
  LineFields fields;
  size_t group_bytes = 0;  // those of the key that its values share
  bool is_read = true;     // the key has no odd value
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

  // The format of items, with the keys that the header names.
  const items::Format& format() const { return order_.format(); }
  // The columns that rows of CSV need to be indexed by (bowtie::BatchReader).
  const std::vector<size_t>& columns() const { return indexed_; }
  // The partials that an item becomes: its group's, and a value's for each list.
  size_t entries() const { return 1 + columns_.lists().size(); }
  // The key of one of them: a part of the item, or made in `scratch`, which has to stay for the
  // next entry of this item; empty if there is none, because the value is empty or wrong.
  std::optional<std::string_view> key_of_item(const bowtie::Items& items, size_t i, size_t entry,
                                              KeyScratch& scratch) const;
  uint64_t count_of_partial(std::string_view partial) const;
  // The bytes of a partial's position, whose order is that of positions. REQUIRES: it has one.
  std::string_view position_of_partial(std::string_view partial) const {
    return partial.substr(count_offset(partial.data()) - position_bytes, position_bytes);
  }
  // Returns whether a complete group has a result.
  bool is_kept(std::string_view partial) const {
    return aggregates_.kept == GroupsKept::all ||
           (count_of_partial(partial) == 1) == (aggregates_.kept == GroupsKept::once);
  }
  // Bytes of a usual partial beside its key and text.
  size_t fixed_bytes() const { return RowHead::bytes + empty_bytes_; }
  // Returns whether partials of values follow that of their group.
  bool has_values() const { return !columns_.lists().empty(); }
  // The list of a value's partial; empty: it is a group's.
  std::optional<size_t> list_of_partial(std::string_view partial) const;
  // Begins the fold of a group, and adds a value to it.
  void begin_fold(std::string_view group, ValueFold& fold) const;
  void add_to_fold(std::string_view group, std::string_view value, ValueFold& fold) const;
  const GroupColumns& columns_of_results() const { return columns_; }
  // The partial of a group without items.
  std::string empty_partial() const;
  // Returns whether there is one group, which has a result even without items.
  bool is_total() const { return options_.total && has_begun_; }

  // Writes the partial of an entry of item `i` to `to`. Errors of this, add_item() and
  // add_partial(): corrupt if a value is not a number (then bad_value() is set); unsupported if a
  // sum has too many digits.
  Status make_partial(const bowtie::Items& items, size_t i, size_t entry, std::string_view key,
                      std::string& to);
  // Adds an item, or a partial, of the same key. Returns false and changes nothing if the partial
  // has to be widened first.
  Result<bool> add_item(char* partial, const bowtie::Items& items, size_t i);
  Result<bool> add_partial(char* partial, std::string_view other);
  // Writes the partial to `to` with room for what the last call could not add.
  void widen(std::string_view partial, std::string& to) const;
  // The fields without a value in the last item that was added.
  unsigned empty_values() const { return columns_.empty_values(); }
  const std::optional<BadValue>& bad_value() const { return columns_.bad_value(); }
  void set_bad_value(const std::optional<BadValue>& bad) { columns_.set_bad_value(bad); }
  // Sets the line end of the results to that of the first line of all, if it is not set yet.
  void note_first(std::string_view line) {
    if (end_.empty()) end_ = end_of(line);
  }

  // Appends the result of a group. A line has the count, the text of each key in the first line,
  // and the results of columns, with the separator or tabs between them; a row has the keys, the
  // count, the results; of JSON lines it is an object of the keys' members, "count" and
  // "sum_price" and the like, null if there is none. `of_values`: the results that its values make.
  // Errors: unsupported if a number has too many digits.
  Status append_result(std::string_view partial, std::string& to,
                       std::span<const std::string> of_values = {}) const;

 private:
  GroupLines(const items::Format& format, const Aggregates& aggregates,
             const GroupLinesOptions& options, GroupColumns columns);
  // Finds the columns of a line, or the members; those of a row are known.
  void find_fields(std::string_view line, LineFields& fields) const;
  // The text of a column; of a member, a number without its exponent.
  std::string_view text_of(const bowtie::Items& items, size_t i, size_t column,
                           const LineFields& fields, std::string& room) const;
  std::string_view plain_key(const bowtie::Items& items, size_t i, std::string& room,
                             bool& is_read) const;
  Result<bool> add(char* partial, uint64_t count);
  void set_order(const items::Format& format);
  void find_columns();
  std::string head_of(std::string_view header) const;
  void append_keys(std::string_view line, std::string& to) const;
  void append_members(std::string_view line, std::string& to) const;
  // The line without its end, and a row without its carriage return.
  std::string_view without_end(std::string_view line) const;
  std::string end_of(std::string_view line) const;
  // The count, and the state of the columns behind it.
  size_t count_offset(const char* partial) const {
    return RowHead::bytes + RowHead::at(partial).key_bytes + has_values() +
           options_.positions * position_bytes;
  }
  size_t state_offset(const char* partial) const {
    return count_offset(partial) + counts_ * sizeof(uint64_t);
  }
  static constexpr size_t position_bytes = sizeof(uint64_t);

  items::ItemOrder order_;
  const Aggregates aggregates_;
  const bool counts_;  // partials have a count
  const GroupLinesOptions options_;
  const items::FieldStyle style_;
  const bool has_members_;  // items are JSON lines
  const char separator_;
  GroupColumns columns_;
  size_t empty_bytes_ = 0;            // bytes of a group's partial without text and key
  bool shows_key_ = false;            // results show the key bytes
  bool has_begun_ = false;            // the columns are known
  std::vector<size_t> indexed_;       // columns of values and key in a row, ascending
  std::vector<size_t> value_fields_;  // indices of the values in indexed_
  std::optional<size_t> key_column_ =
      {};  // index of the key in indexed_; empty: the key is made, or no column
  std::optional<items::TextKey>
      text_key_;  // the only key of lines, if its bytes are a part of the line
  std::optional<char> text_separator_;
  std::vector<std::string> result_names_;
  std::string head_;
  std::string end_;  // line end of the results: the first line's; empty before it
  const items::JsonOrder* key_members_ = nullptr;  // the keys of JSON lines
  LineFields fields_;
  std::string room_;
  uint64_t position_ = 0;  // that of the next partial
};

}  // namespace penstock::files
