#pragma once

// Shared helpers of the tests of streams with two sides.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <thread>

#include "penstock/base.h"

namespace penstock {

inline constexpr size_t block = 64 * KiB;

// A load and a store that the compiler keeps where they are written.
inline uint8_t look(const char* at) {
  return *reinterpret_cast<const volatile uint8_t*>(at);
}
inline void touch(char* at, int value = 'x') {
  *static_cast<volatile char*>(at) = static_cast<char>(value);
}

// Whether the condition becomes true within ms_max.
template <class Condition>
bool soon(Condition condition, int ms_max = 60'000) {
  for (int ms = 0; ms < ms_max && !condition(); ++ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return condition();
}
inline constexpr int a_while_ms = 30;

}  // namespace penstock
