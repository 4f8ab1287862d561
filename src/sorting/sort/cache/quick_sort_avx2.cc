#if defined(__x86_64__)

#include <immintrin.h>

#include "sorting/sort/cache/quick_sort.h"

// AVX2 has no masks and no compression: a mask of eight bits is looked up in a table of
// permutations. Words of 64 bits are permuted as two of 32 each. The table for words of 32 bits has
// four bits a lane, which a shift moves to their lanes: whole vectors would fill a sixth of the
// first-level cache, and widening bytes uses the port that permutes.

namespace penstock::sorting::avx2 {
namespace {

// For each mask of lanes, the indices of the lanes in it.
struct Permutations32 {
  alignas(64) uint32_t of[256] = {};
  constexpr Permutations32() {
    for (uint32_t mask = 0; mask < 256; ++mask) {
      uint32_t at = 0;
      for (uint32_t lane = 0; lane < 8; ++lane)
        if ((mask >> lane & 1) != 0) of[mask] |= lane << (4 * at++);
    }
  }
};
constexpr Permutations32 permutations_32;

struct Permutations64 {
  alignas(64) uint32_t of[16][8] = {};
  constexpr Permutations64() {
    for (uint32_t mask = 0; mask < 16; ++mask) {
      uint32_t at = 0;
      for (uint32_t lane = 0; lane < 8; ++lane)
        if ((mask >> lane / 2 & 1) != 0) of[mask][at++] = lane;
    }
  }
};
constexpr Permutations64 permutations_64;

}  // namespace

struct Vectors {
  using Vector = __m256i;
  static Vector load(const void* from) {
    return _mm256_loadu_si256(static_cast<const __m256i*>(from));
  }
  static void store(void* to, Vector v) { _mm256_storeu_si256(static_cast<__m256i*>(to), v); }

  static Vector all(uint32_t word) { return _mm256_set1_epi32(static_cast<int>(word)); }
  static Vector all(uint64_t word) { return _mm256_set1_epi64x(static_cast<long long>(word)); }
  static Vector all(const Key128& item) {
    const auto low = static_cast<long long>(item.low);
    const auto high = static_cast<long long>(item.high);
    return _mm256_set_epi64x(high, low, high, low);
  }

  // AVX2 compares signed numbers.
  template <class Word>
  static uint32_t below(Vector a, Vector b) {
    const Vector sign = all(Word{1} << (8 * sizeof(Word) - 1));
    a = _mm256_xor_si256(a, sign);
    b = _mm256_xor_si256(b, sign);
    if constexpr (sizeof(Word) == 4) {
      const __m256 less = _mm256_castsi256_ps(_mm256_cmpgt_epi32(b, a));
      return static_cast<uint32_t>(_mm256_movemask_ps(less));
    } else {
      return mask_of(_mm256_cmpgt_epi64(b, a));
    }
  }
  static uint32_t equal(Vector a, Vector b) { return mask_of(_mm256_cmpeq_epi64(a, b)); }
  template <class Word>
  static Vector compress(uint32_t mask, Vector v) {
    Vector lanes;
    if constexpr (sizeof(Word) == 4) {
      const Vector all_lanes = _mm256_set1_epi32(static_cast<int>(permutations_32.of[mask]));
      lanes = _mm256_srlv_epi32(all_lanes, _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    } else {
      lanes = load(permutations_64.of[mask]);
    }
    return _mm256_permutevar8x32_epi32(v, lanes);
  }

 private:
  static uint32_t mask_of(Vector v) {
    return static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(v)));
  }
};

}  // namespace penstock::sorting::avx2

#define PENSTOCK_TIER avx2
#include "sorting/sort/cache/partition_by_vectors_impl.h"
#endif
