#if defined(__x86_64__)

#include <immintrin.h>

#include <array>

#include "sorting/sort/leaf/leaf_digest.h"
#include "sorting/sort/leaf/network_plan.h"

// Eight words a register, four to thirty-two registers, but the processor has sixteen: the others
// wait in the first-level cache, for which the ports that load and store have time. AVX2 has no
// shuffle of two sources with index vectors: every shuffle is one without, sometimes followed by a
// permutation of its result.

namespace penstock::sorting::avx2 {
namespace {

using LanesOf = std::array<uint32_t, 8>;

// How the lanes `want` of two sources (8 and up: of the second) come together: by `shuffle_ps` or,
// for `blocks`, `permute2x128`, of the sources as given or swapped, and a permutation.
struct ShuffleRecipe {
  bool blocks = false;
  bool swapped = false;
  int control = 0;
  LanesOf then{};
  int cost = 4;

  constexpr uint32_t lane_at(uint32_t place) const {
    const uint32_t block = place / 4;
    if (blocks) {
      const auto half = static_cast<uint32_t>(control >> (4 * block)) & 3;
      return (half * 4 + place % 4) ^ (swapped ? 8 : 0);
    }
    const auto lane = static_cast<uint32_t>(control >> (2 * (place % 4))) & 3;
    return (place % 4 / 2 * 8 + block * 4 + lane) ^ (swapped ? 8 : 0);
  }
  constexpr bool then_is(auto lane_of) const {
    for (uint32_t place = 0; place < 8; ++place)
      if (then[place] != lane_of(place)) return false;
    return true;
  }
  constexpr bool then_nothing() const {
    return then_is([](uint32_t place) { return place; });
  }
  constexpr bool then_in_blocks() const {
    return then_is([this](uint32_t place) { return place / 4 * 4 + then[place % 4]; });
  }
};

constexpr ShuffleRecipe recipe_for(const LanesOf& want) {
  ShuffleRecipe best;
  const auto consider = [&](ShuffleRecipe recipe) {
    for (uint32_t place = 0; place < 8; ++place) {
      recipe.then[place] = 8;
      for (uint32_t from = 0; from < 8; ++from)
        if (recipe.lane_at(from) == want[place]) recipe.then[place] = from;
      if (recipe.then[place] == 8) return;
    }
    recipe.cost = recipe.then_nothing() ? 1 : recipe.then_in_blocks() ? 2 : 3;
    if (recipe.cost < best.cost) best = recipe;
  };
  for (const bool swapped : {false, true}) {
    // In each 16 bytes: even lanes, odd ones, those of either half; backwards, too.
    for (const int control : {0x88, 0xdd, 0x44, 0xee, 0x22, 0x77, 0x11, 0xbb})
      consider({.swapped = swapped, .control = control});
    for (const int control : {0x20, 0x31})
      consider({.blocks = true, .swapped = swapped, .control = control});
  }
  return best;
}

struct Vectors {
  using Vector = __m256i;
  static constexpr unsigned lane_bits = 3;

  static Vector load(const uint32_t* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  static void store(uint32_t* to, Vector v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), v);
  }
  // Loads the first `items` lanes, and the greatest word in the others.
  static Vector load_first(const uint32_t* from, size_t items) {
    const Vector exist = lanes_below(items);
    const Vector v = _mm256_maskload_epi32(reinterpret_cast<const int*>(from), exist);
    return _mm256_or_si256(v, _mm256_xor_si256(exist, all_greatest()));
  }
  static void store_first(uint32_t* to, Vector v, size_t items) {
    _mm256_maskstore_epi32(reinterpret_cast<int*>(to), lanes_below(items), v);
  }
  static Vector all_greatest() { return _mm256_set1_epi32(-1); }
  static Vector least(Vector a, Vector b) { return _mm256_min_epu32(a, b); }
  static Vector greatest(Vector a, Vector b, Vector) { return _mm256_max_epu32(a, b); }

  template <Shuffle, LanesOf lanes>
  [[gnu::always_inline]] static Vector shuffle(Vector a, Vector b) {
    constexpr ShuffleRecipe recipe = recipe_for(lanes);
    static_assert(recipe.cost < 4, "no shuffle of two sources brings these lanes together");
    const Vector v =
        two_source<recipe.blocks, recipe.control>(recipe.swapped ? b : a, recipe.swapped ? a : b);
    if constexpr (recipe.then_nothing()) {
      return v;
    } else if constexpr (recipe.then_in_blocks()) {
      constexpr LanesOf t = recipe.then;
      return _mm256_shuffle_epi32(v, static_cast<int>(t[0] | t[1] << 2 | t[2] << 4 | t[3] << 6));
    } else {
      alignas(32) static constexpr LanesOf then = recipe.then;
      return _mm256_permutevar8x32_epi32(
          v, _mm256_load_si256(reinterpret_cast<const __m256i*>(then.data())));
    }
  }

 private:
  template <bool blocks, int control>
  [[gnu::always_inline]] static Vector two_source(Vector a, Vector b) {
    if constexpr (blocks) {
      return _mm256_permute2x128_si256(a, b, control);
    } else {
      return _mm256_castps_si256(
          _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), control));
    }
  }
  static Vector lanes_below(size_t items) {
    const auto some = static_cast<int>(items < 8 ? items : 8);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(some), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
};

}  // namespace
}  // namespace penstock::sorting::avx2

#define PENSTOCK_TIER avx2
#include "sorting/sort/leaf/words_by_vectors_impl.h"

namespace penstock::sorting::avx2 {

template <class T>
void leaf(const T* in, size_t count, uint64_t base, unsigned bits, T* out) {
  leaf_by_digests<sort_words>(in, count, base, bits, out, leaf<T>);
}
template <>
void leaf(const uint32_t* in, size_t count, uint64_t /*base*/, unsigned /*bits*/, uint32_t* out) {
  words(in, count, out);
}

template void leaf(const uint64_t*, size_t, uint64_t, unsigned, uint64_t*);
template void leaf(const KeyValue*, size_t, uint64_t, unsigned, KeyValue*);
template void leaf(const Key128*, size_t, uint64_t, unsigned, Key128*);

}  // namespace penstock::sorting::avx2

#endif
