#pragma once

// Amounts for people: three digits and a unit.

#include <concepts>
#include <cstdint>
#include <string>

namespace penstock {

std::string grouped(uint64_t number);  // "1,234,567"

// "1 file", "12,000 files"; `many`: the plural, if that is not `one` with an s.
std::string counted(uint64_t number, const std::string& one, const std::string& many = {});

// "1.50 GiB", "612 B": powers of 1024.
std::string bytes_text(double bytes);
std::string bytes_text(std::integral auto bytes) {
  return bytes_text(static_cast<double>(bytes));
}

std::string rate_text(double bytes_per_second);  // "1.50 GB/s": speeds count in powers of 1000
std::string duration_text(double seconds);       // "1.50 ms", "12.3 s", "1:05:07"

}  // namespace penstock
