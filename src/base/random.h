#pragma once

#include <cstdint>

namespace penstock {

// The finalizer of splitmix64: a bijection of 64-bit words that mixes well. Counter-based
// generation (mix64 of seed and index) gives any item of a sequence without the ones before it.
constexpr uint64_t mix64(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// A small sequential generator (splitmix64). Thread safety: none.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t value = mix64(state_);
    state_ += 0x9e3779b97f4a7c15u;
    return value;
  }
  // Uniform in [0, bound), by multiplication. REQUIRES: bound > 0.
  uint64_t below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<__uint128_t>(next()) * bound) >> 64);
  }
  // Uniform in [0, 1).
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  uint64_t state_;
};

}  // namespace penstock
