#include "items/line_ends.h"

#include <bit>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace penstock::items {
namespace {

constexpr size_t block_bytes = 64;

#if defined(__SSE2__)
// Returns a mask of the bytes that are `what`.
uint64_t equal_bytes(const std::byte* block, __m128i what) {
  uint64_t mask = 0;
  for (unsigned i = 0; i < block_bytes; i += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + i));
    const int equal = _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, what));
    mask |= uint64_t{static_cast<uint32_t>(equal)} << i;
  }
  return mask;
}
#endif

}  // namespace

size_t find_line_ends(const std::byte* begin, const std::byte* end, char line_end, size_t* ends,
                      size_t ends_max) {
  size_t found = 0;
  const std::byte* at = begin;
#if defined(__SSE2__)
  const __m128i what = _mm_set1_epi8(line_end);
  // (A block may hold as many ends as it has bytes.)
  for (; static_cast<size_t>(end - at) >= block_bytes && ends_max - found >= block_bytes;
       at += block_bytes) {
    const auto offset = static_cast<size_t>(at - begin);
    for (uint64_t mask = equal_bytes(at, what); mask != 0; mask &= mask - 1)
      ends[found++] = offset + static_cast<size_t>(std::countr_zero(mask)) + 1;
  }
#endif
  while (found < ends_max && at < end) {
    const void* next = std::memchr(at, line_end, static_cast<size_t>(end - at));
    if (next == nullptr) break;
    at = static_cast<const std::byte*>(next) + 1;
    ends[found++] = static_cast<size_t>(at - begin);
  }
  return found;
}

}  // namespace penstock::items
