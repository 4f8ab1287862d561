#pragma once

// A search for any of a few bytes, 64 bytes at a time.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace penstock::items {

template <size_t count>
class ByteSet {
 public:
  static constexpr size_t block_bytes = 64;

  explicit ByteSet(const std::array<char, count>& bytes) : bytes_(bytes) {}

  // Returns a mask of the block: bit i is set if byte i is in the set.
  uint64_t find_in(const std::byte* block) const {
    uint64_t mask = 0;
#if defined(__SSE2__)
    for (unsigned i = 0; i < block_bytes; i += 16) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + i));
      __m128i found = _mm_setzero_si128();
      for (const char byte : bytes_)
        found = _mm_or_si128(found, _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte)));
      mask |= uint64_t{static_cast<uint32_t>(_mm_movemask_epi8(found))} << i;
    }
#else
    for (unsigned i = 0; i < block_bytes; ++i) {
      bool found = false;
      for (const char byte : bytes_) found |= block[i] == std::byte(byte);
      mask |= uint64_t{found} << i;
    }
#endif
    return mask;
  }
  // Returns the mask of fewer bytes.
  uint64_t find_in(const std::byte* begin, size_t bytes) const {
    if (bytes >= block_bytes) return find_in(begin);
    std::byte block[block_bytes] = {};
    std::memcpy(block, begin, bytes);
    return find_in(block) & ((uint64_t{1} << bytes) - 1);
  }

 private:
  std::array<char, count> bytes_;
};

}  // namespace penstock::items
