#pragma once

// Included before each source of the mutated tree (-include): whether a mutant is the one of this run.

extern "C" bool penstock_mutant_is_on(int number) noexcept;

// In constant expressions all mutants are off.
constexpr bool penstock_mutant(int number) noexcept {
  return __builtin_is_constant_evaluated() ? false : penstock_mutant_is_on(number);
}
