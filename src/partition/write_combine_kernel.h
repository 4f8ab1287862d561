// Included once per instruction set, with PENSTOCK_TIER as the name of a namespace.
//
// The naive loop stores each item at the end of its bucket: a cache line read, changed and written
// back for a few items, from as many pages as there are buckets. Here items gather in one line of
// 256 bytes per bucket, which stays in the cache; a full line goes to memory at once by
// non-temporal stores, which do not read what they replace.
//
// The state of a bucket is the offset of its next item within all lines, and nothing else: storing
// an item is a load, a store, an addition and a store, and that the line is full shows in the
// offset's low bits. Where lines go is kept elsewhere, and touched once a line.
//
// A thousand lines do not fit the first-level cache. Stores retire in order, so that one which
// misses holds up all behind it; loads do not. So bucket numbers are computed a little ahead, in
// vectors, and the place of an item is prefetched for writing before it is stored: 1.6 ns an item
// with 1024 buckets instead of 2.5.
//
// A destination is asked for an address by a call through a pointer, and only where its unit ends:
// all methods share this loop.

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "partition/write_combine.h"

namespace penstock::partition_internal::PENSTOCK_TIER {

#include "partition/search_kernel.h"
#include "partition/stream_line_kernel.h"

namespace {

constexpr size_t prefetch_bytes = 2048;

inline uint32_t key_of(uint32_t item) {
  return item;
}
inline uint64_t key_of(uint64_t item) {
  return item;
}
inline uint32_t key_of(const KeyValue32& item) {
  return item.key;
}
inline uint64_t key_of(const KeyValue64& item) {
  return item.key;
}

struct LowBits {
  static constexpr size_t group = 8;
  explicit LowBits(const BucketFunction& f) : mask(static_cast<uint32_t>(f.mask)) {}
  template <class Key>
  uint32_t operator()(Key key) const {
    return static_cast<uint32_t>(key) & mask;
  }
  const uint32_t mask;
};

struct TopBits {
  static constexpr size_t group = 8;
  explicit TopBits(const BucketFunction& f) : shift(f.shift) {}
  template <class Key>
  uint32_t operator()(Key key) const {
    return static_cast<uint32_t>(key >> shift);
  }
  const unsigned shift;
};

struct BitField {
  static constexpr size_t group = 8;
  explicit BitField(const BucketFunction& f) : base(f.base), mask(f.mask), shift(f.shift) {}
  uint32_t operator()(uint64_t key) const {
    return static_cast<uint32_t>((key - base) >> shift & mask);
  }
  const uint64_t base, mask;
  const unsigned shift;
};

struct Range {
  static constexpr size_t group = 8;
  explicit Range(const BucketFunction& f)
      : first(f.base), last(f.last), scale(f.scale), up(f.up), down(f.shift) {}
  uint32_t operator()(uint64_t key) const {
    key = key < first ? first : key;
    key = key > last ? last : key;
    const uint64_t place = (key - first) << up >> down;  // below 2^32
    return static_cast<uint32_t>(place * scale >> 32);
  }
  const uint64_t first, last, scale;
  const unsigned up, down;
};

// The finalizer of murmur3, but for its last step, which does not reach the leading bits.
struct Hash {
  static constexpr size_t group = 8;
  explicit Hash(const BucketFunction& f) : seed(f.base), shift(f.shift) {}
  uint32_t operator()(uint64_t key) const {
    key ^= seed;
    key ^= key >> 33;
    key *= 0xff51afd7ed558ccdu;
    key ^= key >> 33;
    key *= 0xc4ceb9fe1a85ec53u;
    return static_cast<uint32_t>(key >> shift);
  }
  const uint64_t seed;
  const unsigned shift;
};

template <size_t items, class T, class Function>
[[gnu::always_inline]] inline void number_items(const T* in, uint32_t* out,
                                                const Function& function) {
  for (size_t k = 0; k < items; ++k) out[k] = function(key_of(in[k]));
}

template <class Key>
struct Splitters {
  static constexpr size_t group = 32;
  explicit Splitters(const BucketFunction& f) {
    tree.levels = f.levels;
    tree.last = static_cast<uint32_t>(f.last);
    if constexpr (sizeof(Key) == 4) {
      tree.nodes = f.tree32.get();
    } else {
      tree.nodes = f.tree64.get();
    }
  }
  SearchTree<Key> tree;
};

template <size_t items, class T, class Key>
[[gnu::always_inline]] inline void number_items(const T* in, uint32_t* out,
                                                const Splitters<Key>& splitters) {
  alignas(64) Key keys[items];
  for (size_t k = 0; k < items; ++k) keys[k] = key_of(in[k]);
  search<items>(keys, splitters.tree, out);
}

template <size_t line_bytes>
[[gnu::always_inline]] inline void write_line(uint32_t bucket, CombineState& state,
                                              const std::byte* line) {
  std::byte* to = state.to[bucket];
  if ((reinterpret_cast<uintptr_t>(to) & state.unit_mask) == 0)
    to = state.place(state.self, bucket, to, line);
  stream_line<line_bytes>(to, line);
  state.to[bucket] = to + line_bytes;
}

template <class T, size_t line_bytes>
[[gnu::always_inline]] inline void put(const T& item, uint32_t bucket, uint32_t* __restrict at,
                                       std::byte* __restrict lines, CombineState& state) {
  uint32_t offset = at[bucket];
  *reinterpret_cast<T*>(lines + offset) = item;
  offset += static_cast<uint32_t>(sizeof(T));
  at[bucket] = offset;
  if (offset % line_bytes == 0) [[unlikely]] {
    at[bucket] = offset - static_cast<uint32_t>(line_bytes);
    write_line<line_bytes>(bucket, state, lines + offset - line_bytes);
  }
}

[[gnu::always_inline]] inline uint64_t load_two(const uint32_t* words) {
  uint64_t two;
  std::memcpy(&two, words, sizeof(two));
  return two;
}

// Three groups are under way: the numbers of one are computed, the places of the next one's items
// are prefetched for writing, and the items of the third are stored.
template <class T, size_t line_bytes, class Function>
void combine(const T* items, size_t count, const BucketFunction& bucket_function,
             CombineState& state) {
  const Function function(bucket_function);
  uint32_t* const at = state.at;
  std::byte* const lines = state.lines;
  constexpr size_t group = Function::group;
  alignas(64) uint32_t numbers[4][group];
  const size_t groups = count / group;
  size_t done = 0;
  if (groups > 2) {
    number_items<group>(items, numbers[0], function);
    number_items<group>(items + group, numbers[1], function);
    for (size_t g = 0; g + 2 < groups; ++g, done += group) {
      const T* const in = items + done;
      number_items<group>(in + 2 * group, numbers[(g + 2) % 4], function);
      asm volatile("" : : "r"(numbers) : "memory");  // stored, not taken from vectors one by one
      const auto* const ahead = reinterpret_cast<const char*>(in) + prefetch_bytes;
#pragma GCC unroll 16
      for (size_t byte = 0; byte < group * sizeof(T); byte += 64) __builtin_prefetch(ahead + byte);
      // Two numbers, and two small items, a load: loads wait for earlier stores whose addresses
      // have the same low 12 bits, and these go anywhere.
      const uint32_t* const following = numbers[(g + 1) % 4];
#pragma GCC unroll 32
      for (size_t k = 0; k < group; k += 2) {
        const uint64_t two = load_two(following + k);
        __builtin_prefetch(lines + at[static_cast<uint32_t>(two)], 1, 3);
        __builtin_prefetch(lines + at[two >> 32], 1, 3);
      }
      const uint32_t* const here = numbers[g % 4];
#pragma GCC unroll 32
      for (size_t k = 0; k < group; k += 2) {
        const uint64_t two = load_two(here + k);
        const auto first = static_cast<uint32_t>(two);
        const auto second = static_cast<uint32_t>(two >> 32);
        if constexpr (sizeof(T) == 4) {
          const uint64_t items_two = load_two(in + k);
          put<T, line_bytes>(static_cast<T>(items_two), first, at, lines, state);
          put<T, line_bytes>(static_cast<T>(items_two >> 32), second, at, lines, state);
        } else {
          put<T, line_bytes>(in[k], first, at, lines, state);
          put<T, line_bytes>(in[k + 1], second, at, lines, state);
        }
      }
    }
  }
  for (; done < count; ++done) {
    uint32_t number;
    number_items<1>(items + done, &number, function);
    put<T, line_bytes>(items[done], number, at, lines, state);
  }
}

template <class T, size_t line_bytes>
Combine<T> kernel_for(BucketFunction::Kind kind) {
  switch (kind) {
    case BucketFunction::Kind::low_bits:
      return combine<T, line_bytes, LowBits>;
    case BucketFunction::Kind::top_bits:
      return combine<T, line_bytes, TopBits>;
    case BucketFunction::Kind::bit_field:
      return combine<T, line_bytes, BitField>;
    case BucketFunction::Kind::range:
      return combine<T, line_bytes, Range>;
    case BucketFunction::Kind::hash:
      return combine<T, line_bytes, Hash>;
    case BucketFunction::Kind::splitters:
      return combine<T, line_bytes, Splitters<decltype(key_of(T{}))>>;
  }
  return nullptr;
}

template <class T>
Combine<T> kernel_for(BucketFunction::Kind kind, LineBytes line_bytes) {
  return line_bytes == LineBytes::small ? kernel_for<T, 256>(kind) : kernel_for<T, 1024>(kind);
}

}  // namespace

Combine<uint32_t> kernel_u32(BucketFunction::Kind kind, LineBytes line_bytes) {
  return kernel_for<uint32_t>(kind, line_bytes);
}
Combine<uint64_t> kernel_u64(BucketFunction::Kind kind, LineBytes line_bytes) {
  return kernel_for<uint64_t>(kind, line_bytes);
}
Combine<KeyValue32> kernel_kv32(BucketFunction::Kind kind, LineBytes line_bytes) {
  return kernel_for<KeyValue32>(kind, line_bytes);
}
Combine<KeyValue64> kernel_kv64(BucketFunction::Kind kind, LineBytes line_bytes) {
  return kernel_for<KeyValue64>(kind, line_bytes);
}

}  // namespace penstock::partition_internal::PENSTOCK_TIER
