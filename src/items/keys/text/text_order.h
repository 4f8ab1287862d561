#pragma once

// The order of lines by keys of sort(1) in POSIX and GNU: which part of a line is a key (-k, -t,
// -b), and how it compares (-d -f -g -h -i -M -n -R -V, -r).
//
// key_place.h finds a key in its line, key_bytes.h makes bytes of it, key_words.h reads the command
// line.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "items/format.h"
#include "items/keys/key_order.h"
#include "items/keys/text/key.h"
#include "items/keys/text/key_bytes.h"
#include "items/keys/text/locale.h"
#include "items/keys/values/formats.h"
#include "penstock/base.h"

namespace penstock::items {

// Options of an order, in the words of the command line.
struct TextOptions {
  std::vector<std::string> keys = {};  // "2", "2,2n", "1.3b,4r"
  // Some of bdfghiMnRrV, for lines without a key and for keys: of lines those without letters, of
  // columns those that do not say otherwise. A word may follow, as in "r:time".
  std::string letters = {};
  std::optional<char> separator = {};  // separates fields; nullopt: fields begin with their blanks
  // The bytes of whole lines decide between equal keys, unless one of these is set.
  bool stable = false;
  bool unique = false;
  uint64_t random_seed = 0;                   // seed of TextCompare::random
  std::shared_ptr<const Locale> locale = {};  // nullptr is the locale C
  std::string time_format = {};               // TimeFormat
  std::string number_format = {};             // NumberFormat, of keys with n; empty: as in GNU sort
  // Lines are rows of CSV of this dialect; keys are columns by number or by their name in
  // `header`, "2", "price:n", "city:fr", "city,price:n:desc".
  std::optional<Dialect> csv = {};
  std::vector<std::string> header = {};
};

// Returns a name of the order for KeyOrder::name().
std::string name_of(const TextOptions& options);

// Returns the 0-based field or column that "price" or "2" names. `option` is the option that named
// it, for messages. Errors: invalid_argument.
Result<size_t> column_of(std::string_view name, const std::vector<std::string>& header,
                         const std::string& option);
// Returns those of a list such as "price,2". (A column whose own name has commas is found first.)
Result<std::vector<size_t>> columns_of(std::string_view names,
                                       const std::vector<std::string>& header,
                                       const std::string& option);

class TextOrder final : public KeyOrder {
 public:
  // Makes an order. Errors: invalid_argument, with what is wrong.
  static Result<std::shared_ptr<const TextOrder>> make(const TextOptions& options);

  bool append(std::string_view line, std::string& to) const override;
  std::optional<OddValue> find_odd_value(std::string_view line, bool described) const override;
  // Returns the text of each key: its part of the line, or the value of its column. Without keys it
  // is the line.
  std::vector<std::string> texts(std::string_view line) const;
  // The keys without the last resort. If there are none, the whole line is the key.
  const std::vector<TextKey>& keys() const { return keys_; }
  // Returns whether the bytes of an item's key are the unchanged text of the only key, or of the
  // line.
  bool is_text() const;
  // Returns whether the whole line decides between equal keys.
  bool has_last_resort() const { return has_last_resort_; }
  std::optional<char> separator() const { return separator_; }
  const Locale* locale() const { return locale_.get(); }
  // Returns the 0-based field or column in which each key begins.
  std::vector<size_t> fields() const;

 private:
  TextOrder(const TextOptions& options, ValueFormats formats, bool reverse);
  std::string_view text_of(const TextKey& key, std::string_view line, std::string& room) const;

  std::vector<TextKey> keys_;        // the first counts most; empty means the whole line
  std::vector<std::string> header_;  // names of the columns, if they are known
  std::optional<char> separator_;
  std::optional<Dialect> csv_;
  bool has_last_resort_;
  bool reverse_;  // whole lines are in reverse order, as the only key and as the last resort
  uint64_t random_seed_;
  std::shared_ptr<const Locale> locale_;
  ValueFormats formats_;
};

}  // namespace penstock::items
