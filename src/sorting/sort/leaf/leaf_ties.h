#pragma once

// The common part of all leaf kernels: digests, and the repair of items whose digests are equal.

#include <cstddef>
#include <cstdint>

#include "sorting/sort/leaf/leaf.h"

namespace penstock::sorting {

// Bits of a word: the digest above, the index below.
inline constexpr unsigned index_bits = 8;
inline constexpr unsigned digest_bits = 32 - index_bits;
static_assert((size_t{1} << index_bits) == leaf_items_max);

// Sorts each run of equal digests by the whole key. REQUIRES: `out` is sorted by digest, and items
// of one digest are in the order of the input. Time: linear but for runs. A run of a few items is
// sorted by insertion, a longer one as a separate leaf by the remaining bits, which are fewer by
// digest_bits each time: for any keys, an item is in at most three leaves for each word of its key.
template <class T>
void order_ties(T* out, size_t count, uint64_t base, unsigned bits, LeafSort<T> leaf);

}  // namespace penstock::sorting
