#include "sorting/sort/leaf/leaf_ties.h"

#include <algorithm>
#include <bit>
#include <type_traits>

namespace penstock::sorting {
namespace {

constexpr size_t insertion_items_max = 12;

template <class T>
bool sorted(const T* items, size_t count) {
  bool wrong = false;
  for (size_t i = 1; i < count; ++i) wrong |= less(items[i], items[i - 1]);
  return !wrong;
}

template <class T>
void insertion_sort(T* items, size_t count) {
  for (size_t i = 1; i < count; ++i) {
    const T item = items[i];
    size_t place = i;
    for (; place > 0 && less(item, items[place - 1]); --place) items[place] = items[place - 1];
    items[place] = item;
  }
}

template <class T>
void sort_narrower(T* run, size_t count, LeafSort<T> leaf) {
  T copy[leaf_items_max];
  std::copy_n(run, count, copy);
  uint64_t least = ~uint64_t{0};
  uint64_t greatest = 0;
  for (size_t i = 0; i < count; ++i) {
    least = std::min(least, key_of(copy[i]));
    greatest = std::max(greatest, key_of(copy[i]));
  }
  leaf(copy, count, least, static_cast<unsigned>(std::bit_width(greatest - least)), run);
}

// Sorts items with equal high words: the low words become the keys of pairs.
void sort_low_words(Key128* run, size_t count) {
  KeyValue pairs[leaf_items_max];
  KeyValue ordered[leaf_items_max];
  uint64_t least = ~uint64_t{0};
  uint64_t greatest = 0;
  for (size_t i = 0; i < count; ++i) {
    pairs[i] = {run[i].low, run[i].high};
    least = std::min(least, run[i].low);
    greatest = std::max(greatest, run[i].low);
  }
  leaf_sort<KeyValue>()(pairs, count, least,
                        static_cast<unsigned>(std::bit_width(greatest - least)), ordered);
  for (size_t i = 0; i < count; ++i) run[i] = {ordered[i].key, ordered[i].value};
}

}  // namespace

template <class T>
void order_ties(T* out, size_t count, uint64_t base, unsigned bits, LeafSort<T> leaf) {
  if (sorted(out, count)) return;
  const unsigned shift = bits - std::min(bits, digest_bits);
  for (size_t start = 0; start < count;) {
    const uint64_t digest = (key_of(out[start]) - base) >> shift;
    size_t end = start + 1;
    while (end < count && (key_of(out[end]) - base) >> shift == digest) ++end;
    T* run = out + start;
    const size_t run_count = end - start;
    start = end;
    if (run_count == 1 || sorted(run, run_count)) continue;
    if (run_count <= insertion_items_max) {
      insertion_sort(run, run_count);
    } else if (shift != 0) {
      sort_narrower(run, run_count, leaf);
    } else if constexpr (std::is_same_v<T, Key128>) {
      sort_low_words(run, run_count);
    }
  }
}

template void order_ties(uint64_t*, size_t, uint64_t, unsigned, LeafSort<uint64_t>);
template void order_ties(KeyValue*, size_t, uint64_t, unsigned, LeafSort<KeyValue>);
template void order_ties(Key128*, size_t, uint64_t, unsigned, LeafSort<Key128>);

}  // namespace penstock::sorting
