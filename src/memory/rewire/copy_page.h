#pragma once

#include <cstddef>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace penstock::rewire {

// Copies a page just before a write to it at offset `touched`. REQUIRES: both aligned to 4 KiB,
// `bytes` a power of two of at least 4 KiB, no overlap; `touched` < bytes.
//
// An ordinary copy reads the destination's lines from memory before it overwrites them, a third of
// all that it moves; non-temporal stores do not. Memory is faster with several streams than with
// one: four pieces of 4 KiB are copied at the same time, so that the hardware's prefetch, which
// ends at every such piece, works on four at once. The lines that the caller is about to write are
// copied last, with ordinary stores: they are then in the cache. A small page is copied with
// ordinary stores only, because the next writes find all of it in the cache.
inline void copy_page(std::byte* to, const std::byte* from, size_t bytes, size_t touched) noexcept {
#if defined(__SSE2__)
  constexpr size_t piece_bytes = 4096;
  constexpr size_t line_bytes = 64;
  constexpr size_t small_page_bytes = 128 << 10;
  if (bytes <= small_page_bytes) {
    std::memcpy(to, from, bytes);
    return;
  }
  const auto copy_line = [&](size_t at) {
    const auto* const source = reinterpret_cast<const __m128i*>(from + at);
    auto* const target = reinterpret_cast<__m128i*>(to + at);
    const __m128i a = _mm_load_si128(source), b = _mm_load_si128(source + 1);
    const __m128i c = _mm_load_si128(source + 2), d = _mm_load_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  };
  for (size_t piece = 0; piece < bytes; piece += 4 * piece_bytes) {
    for (size_t line = 0; line < piece_bytes; line += 2 * line_bytes) {
      for (size_t stream = 0; stream < 4; ++stream) {
        copy_line(piece + stream * piece_bytes + line);
        copy_line(piece + stream * piece_bytes + line + line_bytes);
      }
    }
  }
  // Non-temporal stores wait in buffers of this core: no other thread may learn of the page before.
  _mm_sfence();
  const size_t hot = touched / piece_bytes * piece_bytes;
  std::memcpy(to + hot, from + hot, piece_bytes);
#else
  (void)touched;
  std::memcpy(to, from, bytes);
#endif
}

}  // namespace penstock::rewire
