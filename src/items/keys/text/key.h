#pragma once

// A key of a line of text, as sort(1) of POSIX and GNU has them: where it lies and how it compares.

#include <cstddef>
#include <cstdint>
#include <limits>

namespace penstock::items {

enum class TextCompare : uint8_t {
  bytes,    // byte by byte, the order of LC_ALL=C
  numeric,  // -n: sign, digits, fraction; of any length
  general,  // -g: what strtold() reads
  human,    // -h: a number and a suffix, as in 2K 1G
  month,    // -M: JAN < FEB < ... < DEC; other text comes first
  version,  // -V: digits compare as numbers, as in file names with versions
  random,   // -R: equal keys stand together, otherwise no order
  // Values as people write them (values/). A text that is none comes first; such texts are ordered
  // by their bytes.
  time,         // :time
  address,      // :ip
  natural,      // :natural
  semver,       // :semver
  hexadecimal,  // :hex
  number,       // -n in the form of NumberFormat
};
// Returns whether a text may be no value of the order, and then comes first.
constexpr bool may_be_none(TextCompare compare) {
  return compare >= TextCompare::time && compare != TextCompare::natural;
}

// A key lies between two places of a line, each given by a field and a character of it, both
// 0-based.
struct TextKey {
  static constexpr size_t line_end = std::numeric_limits<size_t>::max();

  size_t start_field = 0;
  size_t start_character = 0;
  // The key ends behind so many characters of this field.
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

}  // namespace penstock::items
