#pragma once

// What all leaf kernels share: digests, and the repair of items whose digests are equal.

#include <cstddef>
#include <cstdint>

#include "sorting/sort/leaf/leaf.h"

namespace penstock::sorting {

// A word: digest above, index below.
inline constexpr unsigned index_bits = 8;
inline constexpr unsigned digest_bits = 32 - index_bits;
static_assert((size_t{1} << index_bits) == leaf_items_max);

// `out` is sorted by digest, and items of one digest are in the order of the input: sorts each such
// run by the whole key. Time: linear but for runs; a run of a few items by insertion, a longer one
// as a leaf of its own with what is left of the bits, which are fewer by digest_bits each time:
// whatever the keys are, an item takes part in at most three leaves for each word of its key.
template <class T>
void order_ties(T* out, size_t count, uint64_t base, unsigned bits, LeafSort<T> leaf);

}  // namespace penstock::sorting
