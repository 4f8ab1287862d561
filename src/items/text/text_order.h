#pragma once

// The order of lines of text by keys, as sort(1) of POSIX and GNU has them: which part of a line is
// a key (-k, -t, -b), and how it compares (-d -f -g -h -i -M -n -R -V, -r).
//
// key_place.h finds a key in its line, key_bytes.h makes bytes of it, key_words.h reads what a command line says.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "items/key_order.h"
#include "items/text/key.h"
#include "items/text/locale.h"
#include "penstock/base.h"

namespace penstock::items {

// As the options of a command line have them.
struct TextOptions {
  std::vector<std::string> keys = {};  // "2", "2,2n", "1.3b,4r"
  std::string letters = {};  // of bdfghiMnRrV, for lines without a key, and keys without letters
  std::optional<char> separator = {};  // of fields; none: fields begin at the blanks before them
  // Between lines whose keys are equal the bytes of the whole lines decide, unless one of these is
  // set.
  bool stable = false;
  bool unique = false;
  uint64_t random_seed = 0;                   // of TextCompare::random
  std::shared_ptr<const Locale> locale = {};  // none: C
  // Lines are rows of CSV with this separator; keys are columns by number or by their name in
  // `header`, "2", "price:n", "city:fr".
  bool csv = false;
  std::vector<std::string> header = {};
};

// The field or column that "price" or "2" names, from 0 on. `option`: what it was said with, for
// messages. Errors: invalid_argument.
Result<size_t> column_of(std::string_view name, const std::vector<std::string>& header,
                         const std::string& option);

class TextOrder final : public KeyOrder {
 public:
  // Errors: invalid_argument, with what is wrong.
  static Result<std::shared_ptr<const TextOrder>> make(const TextOptions& options);

  void append(std::string_view line, std::string& to) const override;
  // The text of each key as it stands in the line; of rows the field's value. No key: the line.
  std::vector<std::string> texts(std::string_view line) const;
  // The keys, but for the last resort. None: the whole line as it is.
  const std::vector<TextKey>& keys() const { return keys_; }
  // The bytes of an item's key are its text, unchanged: that of the only key, or of the line.
  bool is_text() const;
  // The whole line decides where keys are equal.
  bool has_last_resort() const { return has_last_resort_; }
  std::optional<char> separator() const { return separator_; }
  const Locale* locale() const { return locale_.get(); }
  // Where each key begins: of rows its column. From 0 on.
  std::vector<size_t> fields() const;

 private:
  TextOrder(const TextOptions& options, bool reverse);
  std::string_view text_of(const TextKey& key, std::string_view line, std::string& room) const;

  std::vector<TextKey> keys_;  // the first counts most; none: the whole line
  std::optional<char> separator_;
  bool csv_;
  bool has_last_resort_;
  bool reverse_;  // of whole lines: where there is no key, and as the last resort
  uint64_t random_seed_;
  std::shared_ptr<const Locale> locale_;
};

}  // namespace penstock::items
