#pragma once

// A sort by comparisons for data in the cache, for keys whose distribution defeats a radix sort.
//
// Quick sort, out of place and stable: a pass sends the keys below the pivot to the front of one
// array and the others to the front of the second; the source is one of the two, and both write
// positions stay behind the reading. With vectors a pass is a comparison, two compressions and two
// stores (partition_by_vectors_impl.h). Parts of at most 256 items go to the leaf (leaf.h), which
// needs a range of its keys: the pivots above give it.
//
// Equal keys: a pivot that is the least key of its range splits behind itself instead, and the part
// in front, all equal, is finished. So d distinct keys take at most about 2 log d passes. Worst
// case: after twice as many levels as a good run takes, the pivot is the middle of the range
// instead of the median of a sample, which halves the range at least: the depth is bounded by the
// bits of the key for any input, and no heap sort is needed.
//
// Thread safety: any threads, each with its own arrays. Memory: `spare`, and 8 KiB of stack.

#include <cstddef>
#include <cstdint>

#include "sorting/scatter/bucket_map.h"
#include "sorting/sort/item.h"

namespace penstock::sorting {

// Sorts `count` items of `data`, stable. The contents of `spare`, with room for as many, are lost.
// For uint32_t, uint64_t, KeyValue and Key128. `keys`: a range of all keys (encoded; for Key128 of
// the high words); the closer, the faster.
template <class T>
void quick_sort(T* data, size_t count, T* spare, const KeyRange& keys = {});

// Sorts to another array; the contents of `data` are lost.
template <class T>
void quick_sort_to(T* data, size_t count, T* out, const KeyRange& keys = {});

// Moves the items below `pivot` (less) to `below`, the others to `rest`, each in order; returns how
// many were below. REQUIRES: `items` is `below` or `rest`; the two do not overlap, and each has
// room for `count`.
template <class T>
using PartitionByPivot = size_t (*)(const T* items, size_t count, const T& pivot, T* below,
                                    T* rest);

namespace portable {
template <class T>
size_t partition_by_pivot(const T* items, size_t count, const T& pivot, T* below, T* rest);
}
#if defined(__x86_64__)
namespace avx2 {
template <class T>
size_t partition_by_pivot(const T* items, size_t count, const T& pivot, T* below, T* rest);
}
namespace avx512 {
template <class T>
size_t partition_by_pivot(const T* items, size_t count, const T& pivot, T* below, T* rest);
}
#endif

}  // namespace penstock::sorting
