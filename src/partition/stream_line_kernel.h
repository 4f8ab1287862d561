// Included in files that are compiled per instruction set, inside a namespace of the tier: a full
// line goes to memory past the caches.

namespace {

template <size_t bytes>
[[gnu::always_inline]] inline void stream_line(std::byte* to, const std::byte* line) {
#if defined(__AVX512F__)
  for (size_t i = 0; i < bytes; i += 64) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(to + i),
                        _mm512_load_si512(reinterpret_cast<const __m512i*>(line + i)));
  }
#elif defined(__x86_64__)
  for (size_t i = 0; i < bytes; i += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm_load_si128(reinterpret_cast<const __m128i*>(line + i)));
  }
#else
  std::memcpy(to, line, bytes);
#endif
}

}  // namespace
