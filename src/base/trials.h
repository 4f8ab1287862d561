#pragma once

// The number of trials in tests. PENSTOCK_TRIALS=10 runs a tenth, PENSTOCK_TRIALS=1 or an empty one
// all. ./check runs a share, ./check full all.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace penstock {

inline uint64_t number_from_environment(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 0) : otherwise;
}

inline uint64_t one_trial_in() {
  return std::max<uint64_t>(number_from_environment("PENSTOCK_TRIALS", 1), 1);
}

// Returns how often to try random inputs.
inline uint64_t trials(uint64_t whole) {
  return std::max<uint64_t>(whole / one_trial_in(), 1);
}

// The seeds of a stress test, one for each schedule: `schedules` of them, from 1 on.
// PENSTOCK_STRESS_FIRST and PENSTOCK_STRESS_TRIALS choose others (tools/soak.py),
// PENSTOCK_STRESS_SEED a single one.
struct Seeds {
  uint64_t first = 0;
  uint64_t end = 0;
};
inline Seeds stress_seeds(uint64_t schedules) {
  const uint64_t first = number_from_environment(
      "PENSTOCK_STRESS_SEED", number_from_environment("PENSTOCK_STRESS_FIRST", 1));
  const bool alone = std::getenv("PENSTOCK_STRESS_SEED") != nullptr;
  return {first,
          first + (alone ? 1 : number_from_environment("PENSTOCK_STRESS_TRIALS", schedules))};
}

// Returns the seed of this run: a new, printed number each time; PENSTOCK_TEST_SEED repeats a run.
inline uint64_t seed_of_run() {
  static const uint64_t seed = [] {
    const uint64_t chosen = number_from_environment("PENSTOCK_TEST_SEED", std::random_device()());
    std::printf("PENSTOCK_TEST_SEED=%llu\n", static_cast<unsigned long long>(chosen));
    return chosen;
  }();
  return seed;
}

// Returns whether to try this one of all combinations in nested loops. One in one_trial_in() is
// tried, and each run begins to count at another one. The choice depends on the sum of the digits
// of the combination's number: with the number itself, and an inner loop of four values,
// PENSTOCK_TRIALS=4 would always try the same value.
inline bool tried() {
  static std::atomic<uint64_t> next = std::random_device()();
  const uint64_t share = one_trial_in();
  uint64_t digits = 0;
  for (uint64_t number = next++; share > 1 && number > 0; number /= share) digits += number % share;
  return digits % share == 0;
}

}  // namespace penstock
