#pragma once

// The order of lines of text by keys, as sort(1) of POSIX and GNU has them: which part of a line is
// a key (-k, -t, -b), and how it compares (-d -f -g -h -i -M -n -R -V, -r).
//
// text_order.cc tells how each order becomes bytes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/error.h"
#include "record/key_order.h"

namespace penstock::record {

enum class TextCompare : uint8_t {
  bytes,    // as LC_ALL=C compares strings
  numeric,  // -n: sign, digits, fraction; of any length
  general,  // -g: what strtold() reads
  human,    // -h: a number and a suffix, as in 2K 1G
  month,    // -M: JAN < FEB < ... < DEC; what is no month comes first
  version,  // -V: digits compare as numbers, as in file names with versions
  random,   // -R: equal keys stand together, otherwise no order
};

// A place in a line: before the character `character` of field `field`, both from 0 on.
struct TextKey {
  static constexpr size_t line_end = std::numeric_limits<size_t>::max();

  size_t start_field = 0;
  size_t start_character = 0;
  // The key ends before this field, plus so many of its characters.
  size_t end_field = line_end;
  size_t end_characters = 0;
  bool skips_blanks_at_start = false;  // -b
  bool skips_blanks_at_end = false;
  TextCompare compare = TextCompare::bytes;
  bool only_letters = false;    // -d: letters, digits and blanks count
  bool only_printable = false;  // -i
  bool ignores_case = false;    // -f
  bool reverse = false;         // -r
};

// As the options of a command line have them.
struct TextOptions {
  std::vector<std::string> keys = {};  // "2", "2,2n", "1.3b,4r"
  std::string letters = {};  // of bdfghiMnRrV, for lines without a key, and keys without letters
  std::optional<char> separator = {};  // of fields; none: fields begin at the blanks before them
  // Between lines whose keys are equal the bytes of the whole lines decide, unless one of these is
  // set.
  bool stable = false;
  bool unique = false;
  uint64_t random_seed = 0;  // of TextCompare::random
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
  // Where each key begins: of rows its column. From 0 on.
  std::vector<size_t> fields() const;
  // Other seeds, other orders.
  bool is_random() const {
    return std::ranges::find(keys_, TextCompare::random, &TextKey::compare) != keys_.end();
  }

 private:
  TextOrder(const TextOptions& options, bool reverse);
  void append_key(const TextKey& key, std::string_view text, bool last, std::string& to) const;

  std::vector<TextKey> keys_;  // the first counts most; none: the whole line
  std::optional<char> separator_;
  bool csv_;
  bool reverse_;  // of whole lines: where there is no key, and as the last resort
  uint64_t random_seed_;
};

}  // namespace penstock::record
