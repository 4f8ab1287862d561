#pragma once

// Values of keys that their order cannot read, such as "n/a" in a column of numbers.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "items/keys/text/key.h"
#include "items/keys/values/formats.h"

namespace penstock::items {

class Locale;

struct OddValue {
  std::string place = {};  // "column price", "member .price" or "field 2"
  std::string text = {};
  std::string order = {};  // "is no number and sorts as 0"
  std::string hint = {};   // advice, "--key price:g"
};

// Returns whether values that the key cannot read cause a notice. Those of lines whose keys are GNU
// sort's (`is_of_lines`) do not.
constexpr bool is_asked(const TextKey& key, bool is_of_lines) {
  return may_be_none(key.compare) || (!is_of_lines && (key.compare == TextCompare::numeric ||
                                                       key.compare == TextCompare::general ||
                                                       key.compare == TextCompare::human));
}

// Returns the value, without a description, if it is odd. Blank values are usual, and are not.
// REQUIRES: is_asked().
std::optional<OddValue> odd_value_of(const TextKey& key, std::string_view text,
                                     const Locale* locale, const ValueFormats& formats);
// Describes an odd value. `noun`: "column". `name`: the key's name in --key.
void describe(OddValue& value, const TextKey& key, std::string_view noun, std::string_view name,
              const Locale* locale, const ValueFormats& formats);

}  // namespace penstock::items
