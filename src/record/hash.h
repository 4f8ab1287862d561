#pragma once

// The 64-bit hash whose sum over all items is a check's checksum. Its values are not promised to
// stay the same between versions: compare checksums of one version.
//
// An eight-byte item: mix64. Others: eight bytes at a time (the last ones padded with zeros) go
// through a multiplication of 64 by 64 bits whose halves are XORed; the length is the start value,
// so that padding is told from zeros.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/random.h"
#include "record/codec.h"

namespace penstock::record {

inline uint64_t fold_multiply(uint64_t a, uint64_t b) {
  const __uint128_t product = static_cast<__uint128_t>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

inline uint64_t hash_bytes(const std::byte* data, size_t bytes) {
  constexpr uint64_t factor = 0xd6e8feb86659fd93u;
  uint64_t hash = mix64(bytes);
  for (; bytes >= 8; data += 8, bytes -= 8)
    hash = fold_multiply(hash ^ load<uint64_t>(data), factor);
  if (bytes > 0) {
    uint64_t rest = 0;
    std::memcpy(&rest, data, bytes);
    hash = fold_multiply(hash ^ rest, factor);
  }
  return mix64(hash);
}

}  // namespace penstock::record
