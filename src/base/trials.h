#pragma once

// For tests: how much they try. PENSTOCK_TRIALS=10 asks for a tenth, PENSTOCK_TRIALS=1 or nothing for all. ./check asks for a
// share, ./check full for all.

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string_view>

namespace penstock {

inline uint64_t one_trial_in() {
  uint64_t share = 1;
  if (const char* const text = std::getenv("PENSTOCK_TRIALS")) {
    const std::string_view digits = text;
    std::from_chars(digits.data(), digits.data() + digits.size(), share);
  }
  return std::max<uint64_t>(share, 1);
}

// How often to try what is drawn at random.
inline uint64_t trials(uint64_t whole) {
  return std::max<uint64_t>(whole / one_trial_in(), 1);
}

// For loops over all combinations of a few values: whether to try this one. One in one_trial_in() is tried, and each run
// begins to count at another one. So of four combinations PENSTOCK_TRIALS=4 tries one.
inline bool tried() {
  static std::atomic<uint64_t> next = std::random_device()();
  return next++ % one_trial_in() == 0;
}

}  // namespace penstock
