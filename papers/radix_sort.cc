#include "papers/radix_sort.h"

#include <algorithm>
#include <bit>

#include "base/bits.h"
#include "base/check.h"

// Algorithm 9 of the paper, with three changes.
//
//   bucket sort (keys, level):
//     append every key to the stream of its bucket              LineScatter::add (the only pass of
//                                                               a level)
//     for each bucket in order:
//       small enough for the cache? sort it there, give it out  CacheSort
//       otherwise: bucket sort (its keys, level + 1)            appends behind what the streams
//                                                               hold already
//     forget what this bucket appended                          BucketGroup::trim
//
// 1. The loops are this library's, so they report what is read (Reclaim::by_caller), which the
//    paper's rules must guess from faults: no guards, and nothing stays behind. Invariant: the
//    blocks held are those of unread items, plus one partly filled block per stream, plus two per
//    level (the ends of the segment being read). Hence blocks_needed().
// 2. The last levels run in the second-level cache (cache_sort.h), where a histogram costs little;
//    the paper goes on with streams down to eight keys.
// 3. The range of keys is known: bits that are equal in all of them are ignored, both at the start
//    and (by a scan for minimum and maximum) when nearly all keys of a bucket went into one.
//    All-equal input is found by that scan.
//
// Bits a level: as few levels as bits_max allows, all of about the same number of bits (the paper's
// minimum-variance rule). bits_max and the cache's size are the tunables; block size and bits are
// chosen together (block_bytes_for).

namespace penstock::papers {
namespace {

using scatter::key_of;
using scatter::keys_from;
using sorting::Piece;

constexpr unsigned bits_max = 10;
constexpr unsigned bits_min = 5;
// Every level consumes at least bits_min of the 64 bits of a key, so a stream gets all items this
// many times at most. If the addresses do not suffice (items of many GiB), a segment that would not
// fit another time is sorted in place, by comparisons.
constexpr uint64_t levels_max = 64 / bits_min + 2;
static_assert((1u << bits_max) <= RadixSort<uint64_t>::streams_max);

unsigned bits_of_level(uint64_t items, size_t cache_items, unsigned bits_left) {
  auto total = static_cast<unsigned>(std::bit_width(items / cache_items));
  unsigned levels = std::max(1u, (total + bits_max - 1) / bits_max);
  unsigned bits = std::max(bits_min, (total + levels - 1) / levels);
  return std::min(bits, std::max(bits_left, 1u));
}

// Maps bits [bits - bucket_bits, bits) of key - base. REQUIRES: bucket_bits <= bits.
BucketMap map_of_bits(uint64_t base, unsigned bits, unsigned bucket_bits) {
  BucketMap map = BucketMap::by_range(keys_from(0, bits), uint32_t{1} << bucket_bits);
  map.range = keys_from(base, bits);
  map.zero += base;
  return map;
}

}  // namespace

template <class T>
uint32_t RadixSort<T>::blocks_needed(uint64_t items, size_t block_bytes) {
  uint32_t streams = 1u << bits_of_level(items, cache_items_target, 64);
  return static_cast<uint32_t>(ceil_div(items * sizeof(T), block_bytes)) + streams + 24;
}

template <class T>
size_t RadixSort<T>::block_bytes_for(uint64_t items) {
  uint64_t streams = uint64_t{1} << bits_of_level(items, cache_items_target, 64);
  uint64_t bytes = items * sizeof(T) / streams / 4;
  return std::clamp<size_t>(std::bit_floor(std::max<uint64_t>(bytes, 1)), 16 * KiB, 2 * MiB);
}

template <class T>
RadixSort<T>::RadixSort(pool::Pool& pool, CacheSort<T> cache)
    : pool_(pool),
      cache_(std::move(cache)),
      sorted_(std::make_unique_for_overwrite<T[]>(cache_items_max)) {}

template <class T>
Result<std::unique_ptr<RadixSort<T>>> RadixSort<T>::open(pool::Pool& pool,
                                                         const RadixSortOptions& options) {
  auto cache = CacheSort<T>::open(cache_items_max, {});
  if (!cache) return std::unexpected(cache.error());
  std::unique_ptr<RadixSort> sorter(new RadixSort(pool, std::move(*cache)));
  uint32_t streams = 1u << bits_of_level(options.items_max, cache_items_target, 64);
  uint64_t bytes_once = options.items_max * sizeof(T) + pool.block_bytes();
  uint64_t times =
      std::clamp<uint64_t>(options.address_bytes_max / streams / bytes_once, 2, levels_max);
  uint64_t bytes_max = times * bytes_once;
  auto group = BucketGroup::open(
      pool, {.streams = streams, .bytes_max = bytes_max, .reclaim = Reclaim::by_caller});
  if (!group) return std::unexpected(group.error());
  sorter->group_ = std::move(*group);
  sorter->tops_ = std::make_unique<T*[]>(streams);
  return sorter;
}

template <class T>
typename RadixSort<T>::Level& RadixSort<T>::open_level(size_t depth, uint64_t items, uint64_t base,
                                                       unsigned bits) {
  if (levels_.size() <= depth) levels_.push_back(std::make_unique<Level>(group_->streams()));
  Level& level = *levels_[depth];
  unsigned level_bits = bits_of_level(items, cache_items_target, bits);
  level_bits = std::min(level_bits, static_cast<unsigned>(std::bit_width(group_->streams()) - 1));
  level.base = base;
  level.shift = bits - std::min(bits, level_bits);
  level.buckets = 1u << level_bits;
  level.map = map_of_bits(base, bits, std::min(level_bits, bits));
  for (uint32_t j = 0; j < level.buckets; ++j) {
    level.starts[j] = tops_[j];
    level.scatter.begin(j, tops_[j]);
  }
  return level;
}

template <class T>
void RadixSort<T>::close_level(Level& level) {
  for (uint32_t j = 0; j < level.buckets; ++j) {
    level.scatter.flush(j);
    tops_[j] = level.scatter.end(j);
    auto used = reinterpret_cast<std::byte*>(tops_[j]) - group_->begin(j);
    PENSTOCK_CHECK(static_cast<uint64_t>(used) <= group_->bytes_max(),
                   "a bucket stream has outgrown its addresses");
  }
}

template <class T>
void RadixSort<T>::begin(uint64_t items, uint64_t key_min, uint64_t key_max) {
  PENSTOCK_CHECK(key_min <= key_max, "an empty range of keys");
  for (uint32_t j = 0; j < group_->streams(); ++j)
    tops_[j] = reinterpret_cast<T*>(group_->begin(j));
  open_level(0, items, key_min, static_cast<unsigned>(std::bit_width(key_max - key_min)));
  added_ = 0;
}

template <class T>
void RadixSort<T>::add(const T* items, size_t count) {
  Level& level = *levels_[0];
  level.scatter.add(items, count, level.map, {}, items + count);
  added_ += count;
}

template <class T>
void RadixSort<T>::drain(Emitter<T>& out) {
  close_level(*levels_[0]);
  drain_level(0, added_, out);
}

template <class T>
void RadixSort<T>::drain_level(size_t depth, uint64_t parent_items, Emitter<T>& out) {
  for (uint32_t j = 0; j < levels_[depth]->buckets; ++j) {
    Level& level = *levels_[depth];
    T* start = level.starts[j];
    auto count = static_cast<size_t>(level.scatter.end(j) - start);
    if (count == 0) continue;
    sort_segment(start, count, level.base + (uint64_t{j} << level.shift), level.shift, parent_items,
                 depth + 1, out);
    group_->trim(j, reinterpret_cast<std::byte*>(start));
    tops_[j] = start;
  }
}

template <class T>
void RadixSort<T>::sort_segment(T* data, size_t count, uint64_t base, unsigned bits,
                                uint64_t parent_items, size_t depth, Emitter<T>& out) {
  if (bits == 0) return out.emit(data, count);  // one key: nothing to sort
  if (count <= cache_items_max) {
    const Piece<T> piece = {data, count};
    cache_.load({&piece, 1}, count, keys_from(base, bits));
    cache_.store(sorted_.get());
    return out.emit(sorted_.get(), count);
  }
  if (count > parent_items / 2) {
    uint64_t least = ~uint64_t{0};
    uint64_t greatest = 0;
    for (size_t i = 0; i < count; ++i) {
      least = std::min(least, key_of(data[i]));
      greatest = std::max(greatest, key_of(data[i]));
    }
    base = least;
    bits = static_cast<unsigned>(std::bit_width(greatest - least));
    if (bits == 0) return out.emit(data, count);
  }
  if (!has_room_for(count)) {
    auto less = [](const T& a, const T& b) { return key_of(a) < key_of(b); };
    std::stable_sort(data, data + count, less);
    return out.emit(data, count);
  }
  partition(open_level(depth, count, base, bits), data, count);
  drain_level(depth, count, out);
}

template <class T>
bool RadixSort<T>::has_room_for(uint64_t items) const {
  for (uint32_t j = 0; j < group_->streams(); ++j) {
    auto used = static_cast<uint64_t>(reinterpret_cast<std::byte*>(tops_[j]) - group_->begin(j));
    if (used + items * sizeof(T) > group_->bytes_max()) return false;
  }
  return true;
}

// Reads the segment once, returning blocks as soon as they are read.
template <class T>
void RadixSort<T>::partition(Level& level, T* data, size_t count) {
  size_t block_items = group_->block_bytes() / sizeof(T);
  T* end = data + count;
  for (T* from = data; from < end;) {
    auto* boundary = round_down(reinterpret_cast<std::byte*>(from), group_->block_bytes());
    T* to = std::min(end, reinterpret_cast<T*>(boundary) + block_items);
    level.scatter.add(from, static_cast<size_t>(to - from), level.map, {}, to);
    if (from == reinterpret_cast<T*>(boundary)) {
      group_->release(boundary, reinterpret_cast<std::byte*>(to));
    }
    from = to;
  }
  close_level(level);
}

template class RadixSort<uint32_t>;
template class RadixSort<uint64_t>;
template class RadixSort<KeyValue>;

}  // namespace penstock::papers
