#pragma once

// The end of the recursion: small arrays by branch-free sorting networks. One portable kernel
// (leaf_portable.cc), one per instruction set (leaf_avx512.cc), one place that chooses (leaf.cc).

#include <cstddef>

#include "sort/item.h"

namespace penstock::sort {

inline constexpr size_t leaf_items_max = 128;

// Sorts `count` items from `in` to `out`, which may be the same array but not overlap otherwise.
// Not stable. REQUIRES: count <= leaf_items_max.
template <class T>
using LeafSort = void (*)(const T* in, size_t count, T* out);

// The best kernel for this processor (PENSTOCK_CPU in the environment lowers the choice).
template <class T>
LeafSort<T> leaf_sort();

// Stable, by insertion; for short runs.
void insertion_sort(const KeyValue* in, size_t count, KeyValue* out);

namespace portable {
void leaf_u32(const uint32_t* in, size_t count, uint32_t* out);
void leaf_u64(const uint64_t* in, size_t count, uint64_t* out);
void leaf_kv(const KeyValue* in, size_t count, KeyValue* out);
}  // namespace portable

#if defined(__x86_64__)
namespace avx512 {
void leaf_u32(const uint32_t* in, size_t count, uint32_t* out);
void leaf_u64(const uint64_t* in, size_t count, uint64_t* out);
void leaf_kv(const KeyValue* in, size_t count, KeyValue* out);
}  // namespace avx512
#endif

}  // namespace penstock::sort
