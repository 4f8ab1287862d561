#include <algorithm>
#include <limits>
#include <utility>

#include "sort/leaf.h"

// Batcher's odd-even merge sort, unrolled by the compiler from a list of comparators that is made
// at compile time, on local arrays padded with the greatest key. A comparator is two conditional
// moves; no branch depends on the data. Longer leaves are networks of 32 and branch-free merges.

namespace penstock::sort {
namespace {

constexpr size_t network_items_max = 32;

struct Comparator {
  uint8_t low, high;
};

template <size_t n>
struct Network {
  Comparator comparators[n * 10];
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

template <class T>
inline void compare_exchange(T& low, T& high) {
  T a = low;
  T b = high;
  bool swap = key_of(b) < key_of(a);
  low = swap ? b : a;
  high = swap ? a : b;
}

template <size_t n, class T, size_t... index>
inline void run_network(T* items, std::index_sequence<index...>) {
  constexpr auto network = make_network<n>();
  (compare_exchange(items[network.comparators[index].low], items[network.comparators[index].high]),
   ...);
}

template <class T>
T greatest() {
  return std::numeric_limits<T>::max();
}
template <>
KeyValue greatest<KeyValue>() {
  return {~uint64_t{0}, 0};
}

// Padding sorts behind every item, also behind items that have the greatest key themselves: a plain
// key is then equal to its padding, and a pair is kept in front because the comparators never swap
// equal keys across (see below).
template <size_t n, class T>
void padded(const T* in, size_t count, T* out) {
  T items[n];
  for (size_t i = 0; i < n; ++i) items[i] = i < count ? in[i] : greatest<T>();
  constexpr auto network = make_network<n>();
  run_network<n>(items, std::make_index_sequence<network.count>{});
  std::copy(items, items + count, out);
}

template <class T>
void network_sort(const T* in, size_t count, T* out) {
  if (count <= 1) {
    if (count == 1) *out = *in;
  } else if (count <= 4) {
    padded<4>(in, count, out);
  } else if (count <= 8) {
    padded<8>(in, count, out);
  } else if (count <= 16) {
    padded<16>(in, count, out);
  } else {
    padded<32>(in, count, out);
  }
}

// Items of a pair with the greatest key cannot be told from padding by key, and a network is not
// stable: sort those apart.
size_t without_greatest(const KeyValue* in, size_t count, KeyValue* kept, KeyValue* greatest_ones) {
  size_t rest = 0;
  size_t tops = 0;
  for (size_t i = 0; i < count; ++i) {
    if (in[i].key == ~uint64_t{0}) {
      greatest_ones[tops++] = in[i];
    } else {
      kept[rest++] = in[i];
    }
  }
  return rest;
}

template <class T>
void merge(const T* a, const T* a_end, const T* b, const T* b_end, T* out) {
  while (a < a_end && b < b_end) {
    bool take_b = key_of(*b) < key_of(*a);
    *out++ = take_b ? *b : *a;
    a += !take_b;
    b += take_b;
  }
  out = std::copy(a, a_end, out);
  std::copy(b, b_end, out);
}

template <class T>
void leaf(const T* in, size_t count, T* out) {
  if (count <= network_items_max) return network_sort(in, count, out);
  T left[leaf_items_max];
  T right[leaf_items_max];
  size_t half = count / 2;
  leaf(in, half, left);
  leaf(in + half, count - half, right);
  merge(left, left + half, right, right + (count - half), out);
}

}  // namespace

namespace portable {

void leaf_u32(const uint32_t* in, size_t count, uint32_t* out) {
  leaf(in, count, out);
}
void leaf_u64(const uint64_t* in, size_t count, uint64_t* out) {
  leaf(in, count, out);
}

void leaf_kv(const KeyValue* in, size_t count, KeyValue* out) {
  KeyValue kept[leaf_items_max] = {};
  KeyValue tops[leaf_items_max];
  size_t rest = without_greatest(in, count, kept, tops);
  leaf(kept, rest, out);
  std::copy(tops, tops + (count - rest), out + rest);
}

}  // namespace portable

void insertion_sort(const KeyValue* in, size_t count, KeyValue* out) {
  for (size_t i = 0; i < count; ++i) {
    KeyValue item = in[i];
    size_t place = i;
    for (; place > 0 && item.key < out[place - 1].key; --place) out[place] = out[place - 1];
    out[place] = item;
  }
}

}  // namespace penstock::sort
