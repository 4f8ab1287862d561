// This file is included in files that are compiled per instruction set, inside a namespace of the
// tier: the leading words of the keys of eight items, in one vector, and their order.

#if defined(__AVX512F__)
namespace {

alignas(64) constexpr uint64_t even_words[8] = {0, 2, 4, 6, 8, 10, 12, 14};
alignas(64) constexpr uint64_t odd_words[8] = {1, 3, 5, 7, 9, 11, 13, 15};

// Loads the leading words of the keys of eight items.
[[gnu::always_inline]] inline __m512i load_keys(const uint64_t* items) {
  return _mm512_loadu_si512(items);
}
[[gnu::always_inline]] inline __m512i load_keys(const uint32_t* items) {
  return _mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(items)));
}
[[gnu::always_inline]] inline __m512i load_keys(const KeyValue32* items) {
  return _mm512_and_si512(_mm512_loadu_si512(items), _mm512_set1_epi64(~uint32_t{0}));
}
template <class Pair>
[[gnu::always_inline]] inline __m512i load_keys(const Pair* items) {
  const auto* words = reinterpret_cast<const uint64_t*>(items);
  const auto* lanes = std::is_same_v<Pair, Key128> ? odd_words : even_words;
  return _mm512_permutex2var_epi64(_mm512_loadu_si512(words), _mm512_load_si512(lanes),
                                   _mm512_loadu_si512(words + 8));
}

[[gnu::always_inline]] inline __m512i encode_keys(__m512i keys, const KeyOrder& order,
                                                  const uint64_t*) {
  keys = _mm512_rolv_epi64(keys, _mm512_set1_epi64(order.turn_bits));
  const __m512i negative = _mm512_srai_epi64(keys, 63);
  // (keys ^ (negative & flip_if_negative) ^ flip) - subtract
  const __m512i flip =
      _mm512_and_si512(negative, _mm512_set1_epi64(static_cast<long long>(order.flip_if_negative)));
  const __m512i flipped = _mm512_ternarylogic_epi64(
      keys, flip, _mm512_set1_epi64(static_cast<long long>(order.flip)), 0x96);
  return _mm512_sub_epi64(flipped, _mm512_set1_epi64(static_cast<long long>(order.subtract)));
}
[[gnu::always_inline]] inline __m512i encode_keys(__m512i keys, const KeyOrder& order,
                                                  const uint32_t*) {
  const __m512i negative = _mm512_srai_epi64(_mm512_slli_epi64(keys, 32), 63);
  const __m512i flip =
      _mm512_and_si512(negative, _mm512_set1_epi64(static_cast<uint32_t>(order.flip_if_negative)));
  const __m512i flipped = _mm512_ternarylogic_epi64(
      keys, flip, _mm512_set1_epi64(static_cast<uint32_t>(order.flip)), 0x96);
  // The upper halves stay 0.
  return _mm512_sub_epi32(flipped, _mm512_set1_epi64(static_cast<uint32_t>(order.subtract)));
}
[[gnu::always_inline]] inline __m512i encode_keys(__m512i keys, const KeyOrder& order,
                                                  const KeyValue64*) {
  return encode_keys(keys, order, static_cast<const uint64_t*>(nullptr));
}
[[gnu::always_inline]] inline __m512i encode_keys(__m512i keys, const KeyOrder& order,
                                                  const Key128*) {
  return encode_keys(keys, order, static_cast<const uint64_t*>(nullptr));
}

}  // namespace
#endif
