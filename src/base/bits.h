#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace penstock {

// Works for any value: adding the divisor would wrap near 2^64.
constexpr uint64_t ceil_div(uint64_t value, uint64_t divisor) {
  return value / divisor + (value % divisor != 0 ? 1 : 0);
}

// REQUIRES of both: `unit` is a power of two.
constexpr uint64_t round_up(uint64_t value, uint64_t unit) {
  return (value + unit - 1) & ~(unit - 1);
}
constexpr uint64_t round_down(uint64_t value, uint64_t unit) {
  return value & ~(unit - 1);
}

inline std::byte* round_up(std::byte* address, uint64_t unit) {
  return reinterpret_cast<std::byte*>(round_up(reinterpret_cast<uintptr_t>(address), unit));
}
inline std::byte* round_down(std::byte* address, uint64_t unit) {
  return reinterpret_cast<std::byte*>(round_down(reinterpret_cast<uintptr_t>(address), unit));
}

}  // namespace penstock
