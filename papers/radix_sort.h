#pragma once

// The in-place single-pass MSD radix sort of 000, section 5, on bucket streams.
//
// Use: begin(), add() every item (from memory that vanishes behind the reading, for a sort in
// place), then drain(). Memory: the pool's blocks, at most blocks_needed(); 16 bytes a block and
// stream of tables; a few hundred KiB for lines and the cache sort. Stable. Time: O(n) for each
// level of at most 10 bits, and levels end when a bucket fits the cache or has one key only.
//
// Thread safety: one thread uses a sorter at a time.

#include <cstdint>
#include <memory>
#include <vector>

#include "memory/pool/pool.h"
#include "papers/bucket_stream.h"
#include "penstock/base.h"
#include "sorting/scatter/lines.h"
#include "sorting/sort/cache/cache_sort.h"
#include "sorting/sort/item.h"

namespace penstock::papers {

using scatter::BucketMap;
using scatter::LineScatter;
using sorting::CacheSort;
using sorting::KeyValue;

struct RadixSortOptions {
  uint64_t items_max = 0;                           // in one begin()/drain()
  uint64_t address_bytes_max = uint64_t{48} << 40;  // to reserve for all streams together
};

// Receives sorted items, in order, in memory that it may change. Items with equal keys always come
// in one call.
template <class T>
class Emitter {
 public:
  virtual void emit(T* sorted, size_t count) = 0;

 protected:
  ~Emitter() = default;
};

template <class T>
class RadixSort {
 public:
  // Target size of a bucket: the greatest one with its slots fits a second-level cache of 2 MiB.
  static constexpr size_t cache_items_target = (512u << 10) / sizeof(T);
  static constexpr size_t cache_items_max = 2 * cache_items_target;
  static constexpr uint32_t streams_max = 1024;

  // REQUIRES: the pool outlives the sorter and has blocks_needed() blocks free for it.
  static Result<std::unique_ptr<RadixSort>> open(pool::Pool& pool, const RadixSortOptions& options);

  // The most blocks that sorting `items` takes, without the output.
  static uint32_t blocks_needed(uint64_t items, size_t block_bytes);
  // A block size at which the unfilled ends of buckets waste at most a quarter of `items`, and an
  // eighth on average.
  static size_t block_bytes_for(uint64_t items);

  // Starts a sort of about `items` items with keys in [key_min, key_max].
  void begin(uint64_t items, uint64_t key_min, uint64_t key_max);
  // REQUIRES: keys within the range given; no more than items_max in all.
  void add(const T* items, size_t count);
  uint64_t added() const { return added_; }
  // Emits the items in order and is ready for the next begin().
  void drain(Emitter<T>& out);

 private:
  struct Level {
    explicit Level(uint32_t arrays) : scatter(arrays), starts(std::make_unique<T*[]>(arrays)) {}
    LineScatter<T> scatter;
    BucketMap map;
    std::unique_ptr<T*[]> starts;
    uint64_t base = 0;
    unsigned shift = 0;
    uint32_t buckets = 0;
  };

  RadixSort(pool::Pool& pool, CacheSort<T> cache);
  Level& open_level(size_t depth, uint64_t items, uint64_t base, unsigned bits);
  void close_level(Level& level);
  void drain_level(size_t depth, uint64_t parent_items, Emitter<T>& out);
  void sort_segment(T* data, size_t count, uint64_t base, unsigned bits, uint64_t parent_items,
                    size_t depth, Emitter<T>& out);
  bool has_room_for(uint64_t items) const;
  void partition(Level& level, T* data, size_t count);

  pool::Pool& pool_;
  std::unique_ptr<BucketGroup> group_;
  std::vector<std::unique_ptr<Level>> levels_;
  std::unique_ptr<T*[]> tops_;  // place of the next item of each stream
  CacheSort<T> cache_;
  std::unique_ptr<T[]> sorted_;  // output of the cache sort
  uint64_t added_ = 0;
};

}  // namespace penstock::papers
