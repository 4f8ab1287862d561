#include <algorithm>
#include <utility>

#include "sorting/sort/leaf/leaf_digest.h"

// Batcher's odd-even merge sort, unrolled by the compiler from a list of comparators that is made
// at compile time, on local arrays padded with the greatest word. A comparator is written in
// arithmetic, because gcc makes branches of minima, which doubles the time; no branch depends on
// the data. More words are sorted by networks of 32 and branch-free merges.

namespace penstock::sorting {
namespace {

constexpr size_t network_words_max = 32;

template <size_t n>
struct Network {
  struct {
    uint8_t low, high;
  } comparators[n * 10];
  size_t count = 0;
};

template <size_t n>
constexpr Network<n> make_network() {
  Network<n> network{};
  for (size_t p = 1; p < n; p *= 2) {
    for (size_t k = p; k >= 1; k /= 2) {
      for (size_t j = k % p; j + k < n; j += 2 * k) {
        for (size_t i = 0; i < std::min(k, n - j - k); ++i) {
          if ((i + j) / (p * 2) == (i + j + k) / (p * 2)) {
            network.comparators[network.count++] = {static_cast<uint8_t>(i + j),
                                                    static_cast<uint8_t>(i + j + k)};
          }
        }
      }
    }
  }
  return network;
}

inline void compare_exchange(uint32_t& low, uint32_t& high) {
  const uint32_t a = low;
  const uint32_t b = high;
  const uint32_t change = (a ^ b) & (0 - static_cast<uint32_t>(b < a));
  low = a ^ change;
  high = b ^ change;
}

template <size_t n, size_t... index>
inline void run_network(uint32_t* words, std::index_sequence<index...>) {
  constexpr auto network = make_network<n>();
  (compare_exchange(words[network.comparators[index].low], words[network.comparators[index].high]),
   ...);
}

template <size_t n>
void padded(uint32_t* in_place, size_t count) {
  uint32_t words[n];
  for (size_t i = 0; i < n; ++i) words[i] = i < count ? in_place[i] : ~uint32_t{0};
  constexpr auto network = make_network<n>();
  run_network<n>(words, std::make_index_sequence<network.count>{});
  std::copy_n(words, count, in_place);
}

// Merges two sorted runs of `half` words each, from both ends at once: neither end can run past the
// words in `half` steps, so no step checks for the end, and the two chains of dependent loads
// overlap.
inline void merge_halves(const uint32_t* runs, size_t half, uint32_t* out) {
  const uint32_t* a = runs;
  const uint32_t* b = runs + half;
  const uint32_t* a_back = b - 1;
  const uint32_t* b_back = b + half - 1;
  for (size_t i = 0; i < half; ++i) {
    const size_t take_b = *b < *a;
    out[i] = *b < *a ? *b : *a;
    b += take_b;
    a += 1 - take_b;
    const size_t take_a_back = *b_back < *a_back;
    out[2 * half - 1 - i] = *b_back < *a_back ? *a_back : *b_back;
    a_back -= take_a_back;
    b_back -= 1 - take_a_back;
  }
}

// Sorts two halves and merges them.
void sort_by_merge(uint32_t* words, size_t count) {
  uint32_t runs[leaf_items_max];
  uint32_t merged[leaf_items_max];
  const size_t half = (count + 1) / 2;
  for (size_t i = 0; i < count; ++i) runs[i] = words[i];
  if (count % 2 != 0) runs[count] = ~uint32_t{0};
  portable::sort_words(runs, half);
  portable::sort_words(runs + half, half);
  merge_halves(runs, half, merged);
  for (size_t i = 0; i < count; ++i) words[i] = merged[i];
}

}  // namespace

namespace portable {

void sort_words(uint32_t* words, size_t count) {
  if (count <= 1) return;
  if (count <= 4) return padded<4>(words, count);
  if (count <= 8) return padded<8>(words, count);
  if (count <= 16) return padded<16>(words, count);
  if (count <= network_words_max) return padded<32>(words, count);
  sort_by_merge(words, count);
}

template <class T>
void leaf(const T* in, size_t count, uint64_t base, unsigned bits, T* out) {
  leaf_by_digests<sort_words>(in, count, base, bits, out, leaf<T>);
}

template void leaf(const uint32_t*, size_t, uint64_t, unsigned, uint32_t*);
template void leaf(const uint64_t*, size_t, uint64_t, unsigned, uint64_t*);
template void leaf(const KeyValue*, size_t, uint64_t, unsigned, KeyValue*);
template void leaf(const Key128*, size_t, uint64_t, unsigned, Key128*);

}  // namespace portable
}  // namespace penstock::sorting
