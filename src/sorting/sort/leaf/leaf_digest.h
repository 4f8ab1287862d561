#pragma once

// The leaf by digests in plain C++, around any sort of words: shared by leaf_portable.cc and
// leaf_avx2.cc. Everything is in an unnamed namespace: each of them compiles its own copy for its
// own instruction set, and the linker must not use one for the other.

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "sorting/sort/leaf/leaf.h"
#include "sorting/sort/leaf/leaf_ties.h"

namespace penstock::sorting {
namespace {

template <WordSort sort_words, class T>
void leaf_by_digests(const T* in, size_t count, uint64_t base, unsigned bits, T* out,
                     LeafSort<T> self) {
  if constexpr (std::is_same_v<T, uint32_t>) {
    for (size_t i = 0; i < count; ++i) out[i] = in[i];
    sort_words(out, count);
  } else {
    constexpr uint32_t index_mask = (uint32_t{1} << index_bits) - 1;
    uint32_t words[leaf_items_max];
    const unsigned down = bits <= digest_bits ? 0 : bits - digest_bits;
    const unsigned up = bits <= digest_bits ? 32 - bits : index_bits;
    for (size_t i = 0; i < count; ++i) {
      const uint64_t digest = ((key_of(in[i]) - base) >> down) << up;
      words[i] = (static_cast<uint32_t>(digest) & ~index_mask) | static_cast<uint32_t>(i);
    }
    sort_words(words, count);
    uint32_t ties = 0;
    for (size_t i = 1; i < count; ++i) ties |= (words[i] ^ words[i - 1]) <= index_mask;
    for (size_t i = 0; i < count; ++i) out[i] = in[words[i] & index_mask];
    if (ties != 0) order_ties<T>(out, count, base, bits, self);
  }
}

}  // namespace
}  // namespace penstock::sorting
