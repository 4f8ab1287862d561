#pragma once

// The forms that the values of keys have, by options of an order.

#include <optional>
#include <string>

#include "items/keys/text/key.h"
#include "items/keys/values/numbers.h"
#include "items/keys/values/times.h"

namespace penstock::items {

struct ValueFormats {
  TimeFormat times = {};
  std::optional<NumberFormat> numbers = {};  // nullopt: as GNU sort reads them

  // Reads both; empty texts are the defaults. Errors: invalid_argument.
  static Result<ValueFormats> parse(const std::string& time_format,
                                    const std::string& number_format) {
    ValueFormats formats;
    auto times = TimeFormat::parse(time_format);
    if (!times) return std::unexpected(times.error());
    formats.times = std::move(*times);
    if (number_format.empty()) return formats;
    auto numbers = NumberFormat::parse(number_format);
    if (!numbers) return std::unexpected(numbers.error());
    formats.numbers = std::move(*numbers);
    return formats;
  }
  // Returns the key with the comparison that these formats make of :n.
  TextKey applied(TextKey key) const {
    if (numbers && key.compare == TextCompare::numeric) key.compare = TextCompare::number;
    return key;
  }
};

}  // namespace penstock::items
