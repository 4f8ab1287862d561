#pragma once

// In front of each source of the mutated tree (-include): whether the mutant of this number is the one of this run.

extern "C" bool penstock_mutant_is_on(int number) noexcept;

// In constant expressions the code is as it was.
constexpr bool penstock_mutant(int number) noexcept {
  return __builtin_is_constant_evaluated() ? false : penstock_mutant_is_on(number);
}
