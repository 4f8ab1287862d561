#pragma once

// For tests: how much they try. PENSTOCK_TRIALS=10 asks for a tenth, PENSTOCK_TRIALS=1 or nothing for all. ./check asks for a
// share, ./check full for all.

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

// How often to try what is drawn at random.
inline uint64_t trials(uint64_t whole) {
  return std::max<uint64_t>(whole / one_trial_in(), 1);
}

// The seeds of a stress test, one for each schedule: `schedules` of them, from 1 on. PENSTOCK_STRESS_FIRST and
// PENSTOCK_STRESS_TRIALS ask for others (tools/soak.py), PENSTOCK_STRESS_SEED for one alone.
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

// What a run draws with: another number each time, which is printed; PENSTOCK_TEST_SEED repeats a run.
inline uint64_t seed_of_run() {
  static const uint64_t seed = [] {
    const uint64_t chosen = number_from_environment("PENSTOCK_TEST_SEED", std::random_device()());
    std::printf("PENSTOCK_TEST_SEED=%llu\n", static_cast<unsigned long long>(chosen));
    return chosen;
  }();
  return seed;
}

// For loops over all combinations of a few values: whether to try this one. One in one_trial_in() is tried, and each run
// begins to count at another one. So of four combinations PENSTOCK_TRIALS=4 tries one; by the sum of the digits of their
// number, for where an inner loop has four values, one in four by the number itself would always be the same value.
inline bool tried() {
  static std::atomic<uint64_t> next = std::random_device()();
  const uint64_t share = one_trial_in();
  uint64_t digits = 0;
  for (uint64_t number = next++; share > 1 && number > 0; number /= share) digits += number % share;
  return digits % share == 0;
}

}  // namespace penstock
