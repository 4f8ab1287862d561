#if defined(__x86_64__)

#include <immintrin.h>

#include "sorting/sort/cache/quick_sort.h"

namespace penstock::sorting::avx512 {

struct Vectors {
  using Vector = __m512i;
  static Vector load(const void* from) { return _mm512_loadu_si512(from); }
  static void store(void* to, Vector v) { _mm512_storeu_si512(to, v); }

  static Vector all(uint32_t word) { return _mm512_set1_epi32(static_cast<int>(word)); }
  static Vector all(uint64_t word) { return _mm512_set1_epi64(static_cast<long long>(word)); }
  static Vector all(const Key128& item) {
    const auto low = static_cast<long long>(item.low);
    const auto high = static_cast<long long>(item.high);
    return _mm512_set4_epi64(high, low, high, low);
  }

  template <class Word>
  static uint32_t below(Vector a, Vector b) {
    if constexpr (sizeof(Word) == 4) return _mm512_cmplt_epu32_mask(a, b);
    return _mm512_cmplt_epu64_mask(a, b);
  }
  static uint32_t equal(Vector a, Vector b) { return _mm512_cmpeq_epu64_mask(a, b); }
  template <class Word>
  static Vector compress(uint32_t mask, Vector v) {
    if constexpr (sizeof(Word) == 4)
      return _mm512_maskz_compress_epi32(static_cast<__mmask16>(mask), v);
    return _mm512_maskz_compress_epi64(static_cast<__mmask8>(mask), v);
  }
};

}  // namespace penstock::sorting::avx512

#define PENSTOCK_TIER avx512
#include "sorting/sort/cache/partition_by_vectors_impl.h"
#endif
