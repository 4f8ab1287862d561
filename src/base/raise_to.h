#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace penstock {

// Makes `most` at least `value`, and returns the result. Relaxed: it hands over no data to threads
// that read `most`.
inline uint64_t raise_to(std::atomic<uint64_t>& most, uint64_t value) {
  uint64_t before = most.load(std::memory_order_relaxed);
  while (before < value && !most.compare_exchange_weak(before, value, std::memory_order_relaxed)) {
  }
  return std::max(before, value);
}

}  // namespace penstock
