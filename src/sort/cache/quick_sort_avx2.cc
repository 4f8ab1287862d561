#if defined(__x86_64__)

#include <immintrin.h>

#include "sort/cache/quick_sort.h"

// There are no masks and no compression: a mask of eight bits is looked up in a table of permutations. Words of 64
// bits are permuted as two of 32 each.

namespace penstock::sorting::avx2 {
namespace {

// For each mask of the lanes the places of those that are in it, then 0. A word has `parts` lanes of 32 bits.
template <size_t parts>
struct Permutations {
  static constexpr size_t words = 8 / parts;
  alignas(64) uint8_t lanes[1 << words][8] = {};
  constexpr Permutations() {
    for (size_t mask = 0; mask < size_t{1} << words; ++mask) {
      size_t at = 0;
      for (size_t word = 0; word < words; ++word) {
        if ((mask >> word & 1) == 0) continue;
        for (size_t part = 0; part < parts; ++part)
          lanes[mask][at++] = static_cast<uint8_t>(word * parts + part);
      }
    }
  }
};
template <size_t parts>
constexpr Permutations<parts> permutations;

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

  // Comparisons are of signed numbers.
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
    const auto& lanes = permutations<sizeof(Word) / 4>.lanes[mask];
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(lanes));
    return _mm256_permutevar8x32_epi32(v, _mm256_cvtepu8_epi32(bytes));
  }

 private:
  static uint32_t mask_of(Vector v) {
    return static_cast<uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(v)));
  }
};

}  // namespace penstock::sorting::avx2

#define PENSTOCK_TIER avx2
#include "sort/cache/partition_by_vectors_impl.h"
#endif
