// This file is included in files that are compiled per instruction set, inside a namespace of the
// tier: the search for a key's bucket among splitters, many keys at a time.
//
// The splitters are an implicit tree: the children of node i are 2 i and 2 i + 1. All keys go down
// one level at a time, and the comparison is the next bit of the number: no branch depends on a
// key. In vectors the nodes of the first levels fit in registers, and a permutation selects them;
// deeper ones are gathered.
//
// A tree of `levels` has 2^levels nodes, of which the first is unused, and at least
// search_nodes_min can be read; nodes beyond the splitters contain the greatest key.

namespace {

inline constexpr unsigned search_levels_in_registers = 5;

template <class Key>
struct SearchTree {
  const Key* nodes;
  unsigned levels;
  uint32_t last;  // the greatest number: the greatest key passes the padding, too
};

template <size_t keys_count, class Key>
[[gnu::always_inline]] inline void search(const Key* keys, const SearchTree<Key>& tree,
                                          uint32_t* numbers) {
  const uint32_t leaves = uint32_t{1} << tree.levels;
#if defined(__AVX512F__)
  if constexpr (sizeof(Key) == 8 && keys_count % 8 == 0) {
    constexpr size_t vectors = keys_count / 8;
    const __m512i one = _mm512_set1_epi64(1);
    __m512i first[4], key[vectors], node[vectors];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; ++i) first[i] = _mm512_loadu_si512(tree.nodes + 8 * i);
#pragma GCC unroll 8
    for (size_t v = 0; v < vectors; ++v) {
      key[v] = _mm512_loadu_si512(keys + 8 * v);
      node[v] = one;
    }
    const auto descend = [&](size_t v, __m512i splitter) __attribute__((always_inline)) {
      const __mmask8 right = _mm512_cmple_epu64_mask(splitter, key[v]);
      node[v] = _mm512_add_epi64(node[v], node[v]);
      node[v] = _mm512_mask_add_epi64(node[v], right, node[v], one);
    };
    unsigned level = 0;
    for (; level < tree.levels && level < 4; ++level) {
#pragma GCC unroll 8
      for (size_t v = 0; v < vectors; ++v)
        descend(v, _mm512_permutex2var_epi64(first[0], node[v], first[1]));
    }
    if (level < tree.levels) {  // nodes 16 to 31
#pragma GCC unroll 8
      for (size_t v = 0; v < vectors; ++v)
        descend(v, _mm512_permutex2var_epi64(first[2], node[v], first[3]));
      ++level;
    }
    for (; level < tree.levels; ++level) {
#pragma GCC unroll 8
      for (size_t v = 0; v < vectors; ++v)
        descend(v, _mm512_i64gather_epi64(node[v], tree.nodes, 8));
    }
    const __m512i last = _mm512_set1_epi64(tree.last);
#pragma GCC unroll 8
    for (size_t v = 0; v < vectors; ++v) {
      const __m512i number =
          _mm512_min_epu64(_mm512_sub_epi64(node[v], _mm512_set1_epi64(leaves)), last);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(numbers + 8 * v),
                          _mm512_cvtepi64_epi32(number));
    }
    return;
  }
  if constexpr (sizeof(Key) == 4 && keys_count % 16 == 0) {
    constexpr size_t vectors = keys_count / 16;
    const __m512i one = _mm512_set1_epi32(1);
    const __m512i first[2] = {_mm512_loadu_si512(tree.nodes), _mm512_loadu_si512(tree.nodes + 16)};
    __m512i key[vectors], node[vectors];
#pragma GCC unroll 8
    for (size_t v = 0; v < vectors; ++v) {
      key[v] = _mm512_loadu_si512(keys + 16 * v);
      node[v] = one;
    }
    const auto descend = [&](size_t v, __m512i splitter) __attribute__((always_inline)) {
      const __mmask16 right = _mm512_cmple_epu32_mask(splitter, key[v]);
      node[v] = _mm512_add_epi32(node[v], node[v]);
      node[v] = _mm512_mask_add_epi32(node[v], right, node[v], one);
    };
    unsigned level = 0;
    for (; level < tree.levels && level < search_levels_in_registers; ++level) {
#pragma GCC unroll 8
      for (size_t v = 0; v < vectors; ++v)
        descend(v, _mm512_permutex2var_epi32(first[0], node[v], first[1]));
    }
    for (; level < tree.levels; ++level) {
#pragma GCC unroll 8
      for (size_t v = 0; v < vectors; ++v)
        descend(v, _mm512_i32gather_epi32(node[v], tree.nodes, 4));
    }
#pragma GCC unroll 8
    for (size_t v = 0; v < vectors; ++v) {
      const __m512i number = _mm512_sub_epi32(node[v], _mm512_set1_epi32(static_cast<int>(leaves)));
      _mm512_storeu_si512(numbers + 16 * v,
                          _mm512_min_epu32(number, _mm512_set1_epi32(static_cast<int>(tree.last))));
    }
    return;
  }
#endif
  uint32_t node[keys_count];
  for (size_t k = 0; k < keys_count; ++k) node[k] = 1;
  for (unsigned level = 0; level < tree.levels; ++level) {
    for (size_t k = 0; k < keys_count; ++k)
      node[k] = 2 * node[k] + (tree.nodes[node[k]] <= keys[k] ? 1 : 0);
  }
  for (size_t k = 0; k < keys_count; ++k) {
    const uint32_t number = node[k] - leaves;
    numbers[k] = number < tree.last ? number : tree.last;
  }
}

}  // namespace
