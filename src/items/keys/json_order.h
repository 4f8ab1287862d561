#pragma once

// The order of JSON lines by values of their members.
//
//   --key KEY[,KEY...]     KEY: [.]NAME[.NAME...][:LETTERS][:WORD][:desc][:asc]
//
// A NAME with other characters than letters, digits, _, - and those above 0x7f, such as "a.b", stands
// in quotes, as a string of JSON. Without letters values are in this order:
//
//   missing < null < false < true < numbers, by value < strings, by their bytes
//
// The key is a byte for the type, then that of TextCompare::numeric or of the text (key_bytes.cc).
// Letters, and words such as time, compare the text of a value as a field of CSV does; null and a
// missing member have none. But :n takes a number of JSON by its value, with its exponent.
//
// No array or object is a key: two that mean the same may be written in many ways.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "items/framing/framing.h"
#include "items/json.h"
#include "items/keys/key_order.h"
#include "items/keys/text/text_order.h"

namespace penstock::items {

class JsonOrder final : public KeyOrder {
 public:
  // Errors: invalid_argument, with what is wrong.
  static Result<std::shared_ptr<const JsonOrder>> make(const TextOptions& options);

  bool append(std::string_view line, std::string& to) const override;
  bool append_checked(std::string_view line, std::string& to, bool& is_read,
                      std::optional<ItemFault>& fault) const override;
  std::optional<OddValue> find_odd_value(std::string_view line, bool described) const override;
  // Finds the first fault of a line, or a value that is no key.
  std::optional<ItemFault> fault_of(std::string_view line) const;
  const std::vector<JsonPath>& paths() const { return paths_; }
  const std::vector<TextKey>& keys() const { return keys_; }

 private:
  JsonOrder(const TextOptions& options, ValueFormats formats, bool reverse);
  static std::vector<JsonValue>& room();
  std::optional<ItemFault> read(std::string_view line, std::vector<JsonValue>& values) const;
  bool append_values(std::string_view line, const std::vector<JsonValue>& values,
                     std::string& to) const;
  bool append_value(size_t number, const JsonValue& value, bool is_last, std::string& to) const;

  std::vector<TextKey> keys_;    // how values compare
  std::vector<JsonPath> paths_;  // and where they are
  bool has_last_resort_;         // whole lines decide between equal keys
  bool reverse_;                 // in reverse order
  uint64_t random_seed_;
  std::shared_ptr<const Locale> locale_;
  ValueFormats formats_;
};

// Returns a path as --key takes it.
std::string shown_path(const JsonPath& path);
// Reads one path, such as ".user.id", without letters. `option`: for messages.
Result<JsonPath> json_path_of(std::string_view text, const std::string& option);

}  // namespace penstock::items
