#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace penstock {

// For tests: how often to try what is drawn at random. PENSTOCK_TRIALS=10 asks for a tenth of it, PENSTOCK_TRIALS=1 or
// nothing for all. ./check asks for a share, ./check full for all.
inline uint64_t trials(uint64_t whole) {
  const char* const text = std::getenv("PENSTOCK_TRIALS");
  uint64_t share = 1;
  if (text != nullptr) {
    const std::string_view digits = text;
    std::from_chars(digits.data(), digits.data() + digits.size(), share);
  }
  return std::max<uint64_t>(whole / std::max<uint64_t>(share, 1), 1);
}

}  // namespace penstock
