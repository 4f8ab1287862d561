#pragma once

// The different values of a group, for medians, quantiles and the number of different values.
//
// If each group kept its values beside its sums, one large group would exceed the memory, though
// groups are few. Here a value is a partial of its own, with a count of its own. It is combined,
// spilled and merged as all partials are, so a group may have any number of values, and a run needs
// no more memory than one that groups by the key and the value.
//
//   key of a group     the key, 00 as 00 FF | 00 00 | 0
//   key of a value     the key, 00 as 00 FF | 00 00 | 1 + the list | the value
//
// Bytes decide the order of keys, so a group comes before its values, these come in their order,
// and groups are in the order of their plain keys. One walk over all of them folds the values into
// results.
//
//   value of a text    the text
//   value of a member  its type | the text, or the key bytes of a number (items/keys/text/key_bytes.h)
//   value of a number  its sign: 0 negative, 1 zero, 2 positive
//     | 4 bytes        the number of digits before the point, less that of zeros right after it if
//                      there are none; plus 2^31
//     | the rest       the digits without zeros at the end, two to a byte, plus 1; FF ends a
//                      negative number
//
// (Big-endian. A negative number has all bits inverted but those of the first byte.) So equal
// numbers have equal bytes, as 1 and 1.00.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/ops/group/group_columns.h"

namespace penstock::files {

// Appends a key that other bytes may follow.
void append_group_key(std::string_view key, std::string& to);
// Appends the bytes of a field's value. Returns false if the field is blank, or if `is_number` and
// it has none. `format`: that of numbers, or nullptr.
bool append_value(std::string_view text, bool is_number, std::string& to,
                  const items::NumberFormat* format = nullptr);
// Appends the bytes of a member's value, with the text that counts for it. Returns false if that is
// blank.
bool append_member(const items::JsonValue& value, std::string_view text, std::string& to);
// Returns the number whose bytes append_value() made, times ten to the power of `places`. REQUIRES:
// the number has at most that many places.
items::Wide number_of_value(std::string_view bytes, unsigned places);

// Computes the results of groups that are made of values. Thread safety: one thread.
class ValueFold {
 public:
  // REQUIRES: the columns outlive this.
  explicit ValueFold(const GroupColumns& columns) : columns_(columns) {}

  // Begins a group. `state`: that of its columns.
  void begin(const char* state);
  // Adds the next value of a list: its bytes, and how often it comes.
  void add(size_t list, std::string_view value, uint64_t count);
  // Returns the text of each result, empty if it is of no list. Errors: unsupported if a number has
  // too many digits.
  Result<std::vector<std::string>> finish();

 private:
  struct Rank {
    size_t result = 0;
    items::QuantileRank rank;
    std::optional<items::Wide> at_rank, at_next;
  };
  struct List {
    uint64_t seen = 0;       // numbers so far, with those that come again
    uint64_t different = 0;  // values so far
    unsigned places = 0;
    std::vector<Rank> ranks;
  };

  const GroupColumns& columns_;
  std::vector<List> lists_;
};

}  // namespace penstock::files
