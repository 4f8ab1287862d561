#pragma once

// The end of the recursion: up to 256 items by branch-free sorting networks.
//
// Networks are fastest on words of 32 bits: a vector holds twice as many as of 64-bit keys, and the
// minimum of two is one instruction of latency 1, not two of latency 3. But keys are wider and may
// carry values. The keys of a radix sort's leaf lie in [base, base + 2^bits), and bits is small
// against 64. So each item becomes a word: the leading 24 of these bits (the digest) above the
// item's index in the leaf. The words are sorted, and their low bytes are the indices by which the
// items are gathered in order. The index breaks ties, so the sort is stable.
//
// Items with equal digests come out next to each other in input order, which is wrong only if their
// keys differ below the digest: for 100 uniform keys this happens in one leaf of 3000. Equal
// neighbours are detected while the words are still in registers, and order_ties() repairs them.
//
// The word sort has a file per instruction set: leaf_portable.cc, leaf_avx2.cc, leaf_avx512.cc;
// leaf.cc chooses. The vector networks are planned in network_plan.h, and run by
// words_by_vectors_impl.h.

#include <cstddef>
#include <cstdint>

#include "sorting/sort/item.h"

namespace penstock::sorting {

inline constexpr size_t leaf_items_max = 256;

// Sorts `count` items, whose keys (key_of) lie in [base, base + 2^bits), from `in` to `out`.
// Stable. Reads and writes nothing outside the `count` items. For uint32_t base and bits do not
// matter, and the arrays may be the same. REQUIRES: count <= leaf_items_max; the arrays do not
// overlap otherwise.
template <class T>
using LeafSort = void (*)(const T* in, size_t count, uint64_t base, unsigned bits, T* out);

// Returns the best kernel for this processor (PENSTOCK_CPU in the environment lowers the choice),
// for uint32_t, uint64_t, KeyValue and Key128.
template <class T>
LeafSort<T> leaf_sort();

// Sorts words in place. REQUIRES: count <= leaf_items_max.
using WordSort = void (*)(uint32_t* words, size_t count);
WordSort word_sort();

namespace portable {
template <class T>
void leaf(const T* in, size_t count, uint64_t base, unsigned bits, T* out);
void sort_words(uint32_t* words, size_t count);
}  // namespace portable

#if defined(__x86_64__)
namespace avx2 {
template <class T>
void leaf(const T* in, size_t count, uint64_t base, unsigned bits, T* out);
void sort_words(uint32_t* words, size_t count);
}  // namespace avx2

namespace avx512 {
template <class T>
void leaf(const T* in, size_t count, uint64_t base, unsigned bits, T* out);
void sort_words(uint32_t* words, size_t count);
}  // namespace avx512
#endif

}  // namespace penstock::sorting
