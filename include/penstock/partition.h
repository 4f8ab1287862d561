#pragma once

// Partitioning: the items of an array go to 2^b buckets, or any number of them, in one pass,
// without being counted beforehand.
//
// clang-format off
//   auto parts = penstock::partition<uint64_t>(keys, {.by = penstock::ByHash{.bits = 8}, .threads = 2});
//   for (uint32_t i = 0; i < parts->buckets(); ++i) use(parts->bucket(i));  // a span each
// clang-format on
//
// Buckets lie in contiguous memory, made of blocks that were brought into a row, so that nothing is
// copied to join them (but for the little that PartitionStats::copied_bytes tells).
//
// Each bucket begins in the first eighth of a block, at one of sixteen places, so that buckets which
// grow alike do not meet in the caches; and it ends in a block that is not full. With 2^b buckets, at
// most so many blocks, and a sixteenth more, are unused in part; where several threads keep the order,
// as many for each thread. Otherwise, until the gaps are closed, each of several threads may also
// leave a piece of each bucket unused: together an eighth of a block per bucket, or 256 bytes per
// bucket and thread if that is more.
//
// This is the method that A. Labbane, "Memory-Efficient Multi-Threaded Streaming Partitioning
// Algorithm" (Texas A&M University, 2022) asks for and leaves open.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "penstock/base.h"
#include "penstock/containers.h"
#include "penstock/region.h"
#include "penstock/rewire.h"
#include "penstock/sort.h"

namespace penstock {

namespace partition_internal {
class Core;
}

inline constexpr uint32_t partition_buckets_max = 1 << 14;

// ---- which bucket an item belongs to, by its key

// The place of a key in the order of its type, which is that of sort(), as an unsigned number of as
// many bits: what high bits, ranges and splitters are made of. Of an unsigned number it is the number
// itself, of 128 bits the upper 64, of a pair that of its key. ByRange{rank_of(-1.0), rank_of(1.0)}.
template <Sortable T>
uint64_t rank_of(const T& item);

// Bits [0, bits) of the key, as memory holds it.
struct ByLowBits {
  unsigned bits = 8;
};
// Bits [key_bits - bits, key_bits) of rank - base; key_bits = 0: of the whole type. Keys outside of
// [base, base + 2^key_bits) go where these bits say. Of floats only the leading bits of all.
struct ByHighBits {
  unsigned bits = 8;
  unsigned key_bits = 0;
  uint64_t base = 0;
};
// Shares of the ranks [first, last], about equally wide and in order. Keys outside go to the
// outermost. `last` is never more than the greatest rank of the type.
struct ByRange {
  uint64_t first = 0;
  uint64_t last = ~uint64_t{0};
  uint32_t buckets = 256;
};
// The leading bits of a hash of the key, as memory holds it, that spreads any keys; `seed` chooses
// which. (-0 and +0 are two keys.)
struct ByHash {
  unsigned bits = 8;
  uint64_t seed = 0;
};
// Bucket i holds splitters[i - 1] <= rank < splitters[i]; there is one bucket more than splitters.
// REQUIRES: sorted.
struct BySplitters {
  std::vector<uint64_t> splitters;
};
using PartitionBy = std::variant<ByLowBits, ByHighBits, ByRange, ByHash, BySplitters>;

struct PartitionOptions {
  PartitionBy by = ByLowBits{};
  unsigned threads = 1;
  // Items of a bucket keep their order. With several threads each of them then takes one part of
  // the input, as long as the others.
  bool stable = false;
  // Of a pool of its own, where none is given. 0: chosen by the size of a bucket.
  size_t block_bytes = 0;
  std::string name = "partition";  // for messages
};

struct PartitionStats {
  uint64_t distribute_ns = 0;  // reading the input and writing the buckets
  uint64_t join_ns = 0;        // closing gaps, bringing blocks into a row
  uint64_t copied_bytes = 0;   // to close the gaps
  uint32_t blocks_peak = 0;    // held when the input was read
  uint32_t blocks = 0;         // held afterwards
};

// The buckets. Their memory goes back to the pool with them, or bucket by bucket.
// Thread safety: bucket() from any thread; release() of different buckets too.
template <Sortable T>
class Partitions {
 public:
  uint32_t buckets() const;
  // Aligned to 64 bytes. Empty after release().
  std::span<T> bucket(uint32_t index) const;
  void release(uint32_t index);
  const PartitionStats& stats() const;

  Partitions(Partitions&&) noexcept;
  Partitions& operator=(Partitions&&) noexcept;
  ~Partitions();

 private:
  friend struct internal::Access;
  explicit Partitions(std::unique_ptr<partition_internal::Core> core);
  std::unique_ptr<partition_internal::Core> core_;
};

// Of all that sort() takes: integers of 8 to 64 bits, float and double, pairs, and 128 bits.
// Errors: invalid_argument; out_of_memory when the pool has not the blocks that the buckets may
// need (bytes / block_bytes and the unused ones above), or the system has no memory for them;
// out_of_mappings when more than four fifths of vm.max_map_count could be needed.
//
// Several may work on one pool at the same time.
//
// The first takes memory from a pool of its own, which the system has yet to clear; the second from
// one that may have been used before, and is shared.
template <Sortable T>
Result<Partitions<T>> partition(std::span<const T> items, const PartitionOptions& options);
template <Sortable T>
Result<Partitions<T>> partition(const BlockPool& pool, std::span<const T> items,
                                const PartitionOptions& options);

// In place: the first `count` items of a row of blocks, all but the last one full. Each block goes
// back to the pool when a thread has read it, and makes room for buckets.
// After an error the input is gone. REQUIRES: the blocks are of this pool.
template <Sortable T>
Result<Partitions<T>> partition_in_place(const BlockPool& pool,
                                         std::vector<BlockPool::Block> blocks, uint64_t count,
                                         const PartitionOptions& options);

// ---- Into one array without holes.

struct RewiredPartitionOptions {
  PartitionBy by = ByLowBits{};
  unsigned threads = 1;
  // Items of a bucket keep their order, with one thread alone. Costs a copy of nearly everything:
  // filling up a page moves the end of the next bucket to its front.
  bool stable = false;
  std::string name = "rewired partition";  // for messages
};

struct RewiredPartitionStats {
  uint64_t distribute_ns = 0;  // reading the input and writing the buckets' pages
  uint64_t complete_ns = 0;    // filling up pages
  uint64_t rewire_ns = 0;      // bringing them into a row
  uint64_t copied_bytes = 0;   // to fill up pages
  uint32_t pages_peak = 0;     // held when the input was read
  uint32_t pages = 0;          // held afterwards
};

// Thread safety: a value; different buckets may be used by different threads.
template <Sortable T>
struct RewiredPartitions {
  RewiredVector<T> items;               // all of them, bucket after bucket
  std::vector<uint64_t> offsets = {0};  // where each begins, and the end: buckets() + 1 of them
  RewiredPartitionStats stats;

  uint32_t buckets() const { return static_cast<uint32_t>(offsets.size() - 1); }
  std::span<T> bucket(uint32_t index) {
    return {items.data() + offsets[index], offsets[index + 1] - offsets[index]};
  }
  std::span<const T> bucket(uint32_t index) const {
    return {items.data() + offsets[index], offsets[index + 1] - offsets[index]};
  }
};

// Partitioning into one array without holes, of items that nobody counted beforehand: the pages
// that buckets were written to are brought into a row.
//
//   auto pool = penstock::PagePool::open({.bytes_max = 12 * penstock::GiB});
//   auto parts = penstock::rewired_partition<uint64_t>(
//       *pool, keys, {.by = penstock::ByHighBits{10}});
//   for (uint32_t i = 0; i < parts->buckets(); ++i) {
//     if (auto status = penstock::sort(parts->bucket(i)); !status) return status.error();
//   }
//   // Now all of parts->items is in order: it is one array.
//
// Two passes, of which the first counts, read the input twice. One pass into chained blocks leaves
// buckets that no plain loop can walk through, and partition() (penstock/partition.h) leaves each
// bucket contiguous by itself. Here a bucket's last page is filled up with items from the end of
// the next bucket, so that all pages are full, and then they are shown in a row, bucket after
// bucket. What is copied for that is half a page per bucket on average (a third, where buckets are
// longer than a few pages), and at most everything once, where they are shorter than a page: then
// take smaller pages.
//
// Source: the paper named in penstock/rewire.h, section 5.2.4.
//
// Of all that partition() takes. The input stays as it is.
//
// Pages: those that the items fill, and up to one per bucket; with several threads at most an
// eighth more per bucket, or 256 bytes per bucket and thread if that is more. Those that are left
// over are back in the pool in the end. Mappings: one per page at most, and one more.
//
// Errors, after which all pages are back: invalid_argument; out_of_memory, when the pool has not
// enough pages; out_of_mappings.
template <Sortable T>
Result<RewiredPartitions<T>> rewired_partition(const PagePool& pool, std::span<const T> items,
                                               const RewiredPartitionOptions& options = {});

}  // namespace penstock
