#pragma once

// The 64-bit hash whose sum over all items is a check's checksum. Its values are not promised to
// stay the same between versions: compare checksums of one version.
//
// The hash takes eight bytes at a time (the last ones padded with zeros) through a multiplication
// of 64 by 64 bits whose halves are XORed. It starts with the length, so that padding differs from
// zeros. The checksum of eight-byte items is mix64 alone.

#include <cstddef>
#include <cstdint>

#include "base/random.h"
#include "items/keys/codec.h"

namespace penstock::items {

inline uint64_t fold_multiply(uint64_t a, uint64_t b) {
  const __uint128_t product = static_cast<__uint128_t>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Returns fewer than eight bytes, padded with zeros. (A number copied byte by byte would be loaded
// before its stores have met.)
inline uint64_t load_few(const std::byte* data, size_t bytes) {
  if (bytes >= 4)
    return load<uint32_t>(data) | uint64_t{load<uint32_t>(data + bytes - 4)} << 8 * (bytes - 4);
  uint64_t few = 0;
  for (size_t i = 0; i < bytes; ++i) few |= std::to_integer<uint64_t>(data[i]) << 8 * i;
  return few;
}

// Adds bytes to a hash, which the caller mixes at the end.
inline uint64_t fold_bytes(uint64_t hash, const std::byte* data, size_t bytes) {
  constexpr uint64_t factor = 0xd6e8feb86659fd93u;
  for (; bytes >= 8; data += 8, bytes -= 8)
    hash = fold_multiply(hash ^ load<uint64_t>(data), factor);
  if (bytes > 0) hash = fold_multiply(hash ^ load_few(data, bytes), factor);
  return hash;
}

inline uint64_t hash_bytes(const std::byte* data, size_t bytes) {
  return mix64(fold_bytes(mix64(bytes), data, bytes));
}

}  // namespace penstock::items
