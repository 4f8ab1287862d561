#if defined(__x86_64__)

#include <immintrin.h>

#include <utility>

#include "sort/leaf/leaf_digest.h"
#include "sort/leaf/network_plan.h"

// Eight words a register, up to sixteen registers; more words are two networks and a merge. There
// is no shuffle of two sources with index vectors: two permutations and a blend take its place.

namespace penstock::sorting::avx2 {
namespace {

constexpr size_t lanes = 8;
constexpr size_t network_words_max = 16 * lanes;

template <size_t used>
inline constexpr NetworkPlan<3, used> plan;

template <size_t used>
using Registers = __m256i[NetworkPlan<3, used>::registers];

// `upper`: which of the two results of relayout `relayout`.
template <size_t used, size_t relayout, bool upper>
[[gnu::always_inline]] inline __m256i shuffle(__m256i a, __m256i b) {
  constexpr auto& way = plan<used>.relayouts[relayout];
  if constexpr (way.kind == Shuffle::unpack) {
    return upper ? _mm256_unpackhi_epi64(a, b) : _mm256_unpacklo_epi64(a, b);
  } else if constexpr (way.kind == Shuffle::even_odd) {
    const __m256 x = _mm256_castsi256_ps(a);
    const __m256 y = _mm256_castsi256_ps(b);
    return _mm256_castps_si256(_mm256_shuffle_ps(x, y, upper ? 0xdd : 0x88));
  } else if constexpr (way.kind == Shuffle::blocks) {
    return _mm256_permute2x128_si256(a, b, upper ? 0x31 : 0x20);
  } else {
    static_assert(way.kind == Shuffle::any);
    // A bit for each lane that comes from the second source.
    constexpr int second_lanes = [] {
      int mask = 0;
      for (size_t l = 0; l < lanes; ++l)
        if (way.lanes_of[upper][l] >= lanes) mask |= 1 << l;
      return mask;
    }();
    // The permutation looks at the low three bits of a lane number only.
    const __m256i from =
        _mm256_load_si256(reinterpret_cast<const __m256i*>(way.lanes_of[upper].data()));
    return _mm256_blend_epi32(_mm256_permutevar8x32_epi32(a, from),
                              _mm256_permutevar8x32_epi32(b, from), second_lanes);
  }
}

template <size_t used, size_t relayout, size_t... r>
[[gnu::always_inline]] inline void shuffle_all(Registers<used>& v, std::index_sequence<r...>) {
  constexpr auto& way = plan<used>.relayouts[relayout];
  const Registers<used> old = {v[r]...};
  ((v[r] = shuffle < used, relayout, way.which[r] != 0 > (old[way.first[r]], old[way.second[r]])),
   ...);
}

template <size_t used, size_t index>
[[gnu::always_inline]] inline void step(Registers<used>& v) {
  constexpr NetworkStep step = plan<used>.steps[index];
  if constexpr (step.kind == NetworkStep::Kind::compare) {
    const __m256i a = v[step.low];
    const __m256i b = v[step.high];
    v[step.low] = _mm256_min_epu32(a, b);
    v[step.high] = _mm256_max_epu32(a, b);
  } else if constexpr (step.kind == NetworkStep::Kind::swap) {
    const __m256i a = v[step.low];
    v[step.low] = v[step.high];
    v[step.high] = a;
  } else {
    shuffle_all<used, step.shuffle>(v, std::make_index_sequence<plan<used>.registers>{});
  }
}

template <size_t used, size_t... index>
[[gnu::always_inline]] inline void run_steps(Registers<used>& v, std::index_sequence<index...>) {
  // Not a fold: clang limits how deep these nest.
  [[maybe_unused]] const int done[] = {(step<used, index>(v), 0)...};
}

template <size_t used>
void network(uint32_t* in_place, size_t count) {
  alignas(32) uint32_t words[used * lanes];
  for (size_t i = 0; i < count; ++i) words[i] = in_place[i];
  for (size_t i = count; i < used * lanes; ++i) words[i] = ~uint32_t{0};
  Registers<used> v;
#pragma GCC unroll 16
  for (size_t r = 0; r < plan<used>.registers; ++r) {
    v[r] = r < used ? _mm256_load_si256(reinterpret_cast<const __m256i*>(words + r * lanes))
                    : _mm256_set1_epi32(-1);
  }
  run_steps<used>(v, std::make_index_sequence<plan<used>.step_count>{});
#pragma GCC unroll 16
  for (size_t r = 0; r < used; ++r)
    _mm256_store_si256(reinterpret_cast<__m256i*>(words + r * lanes), v[r]);
  for (size_t i = 0; i < count; ++i) in_place[i] = words[i];
}

}  // namespace

void sort_words(uint32_t* words, size_t count) {
  if (count <= 1) return;
  if (count <= 2 * lanes) return network<2>(words, count);
  if (count <= 4 * lanes) return network<4>(words, count);
  if (count <= 8 * lanes) return network<8>(words, count);
  if (count <= 12 * lanes) return network<12>(words, count);
  if (count <= network_words_max) return network<16>(words, count);
  sort_by_merge<sort_words>(words, count);
}

template <class T>
void leaf(const T* in, size_t count, uint64_t base, unsigned bits, T* out) {
  leaf_by_digests<sort_words>(in, count, base, bits, out, leaf<T>);
}

template void leaf(const uint32_t*, size_t, uint64_t, unsigned, uint32_t*);
template void leaf(const uint64_t*, size_t, uint64_t, unsigned, uint64_t*);
template void leaf(const KeyValue*, size_t, uint64_t, unsigned, KeyValue*);
template void leaf(const Key128*, size_t, uint64_t, unsigned, Key128*);

}  // namespace penstock::sorting::avx2

#endif
