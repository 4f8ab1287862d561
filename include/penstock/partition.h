#pragma once

// Partitioning: distributes the items of an array to any number of buckets in one pass, without
// counting them beforehand.
//
// clang-format off
//   auto parts = penstock::partition<uint64_t>(keys, {.by = penstock::ByHash{.bits = 8}, .threads = 2});
//   for (uint32_t i = 0; i < parts->buckets(); ++i) use(parts->bucket(i));  // a span each
// clang-format on
//
// Each bucket lies in contiguous memory, made of blocks that were rewired into a row: joining them
// copies nothing but the few PartitionStats::copied_bytes.
//
// Each bucket begins in the first eighth of a block, at one of sixteen places, so that buckets
// which grow alike do not collide in the caches. It ends in a block that is not full. With 2^b
// buckets, at most 2^b blocks, and a sixteenth more, are partly unused; several threads that keep
// the order need as many each. Several threads that do not keep the order may, until the gaps are
// closed, also leave a piece of each bucket unused: together an eighth of a block per bucket, or
// 256 bytes per bucket and thread if that is more.
//
// This method answers a question left open by A. Labbane, "Memory-Efficient Multi-Threaded
// Streaming Partitioning Algorithm" (Texas A&M University, 2022).

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

// ---- The bucket of an item, by its key.

// Returns the rank of a key: its place in the order of its type, which is that of sort(), as an
// unsigned number with as many bits. High bits, ranges and splitters are made of ranks. An unsigned
// number is its own rank, 128 bits have their upper 64, a pair has its key's.
// ByRange{rank_of(-1.0), rank_of(1.0)}.
template <Sortable T>
uint64_t rank_of(const T& item);

// Selects the bucket by bits [0, bits) of the key in memory.
struct ByLowBits {
  unsigned bits = 8;
};
// Selects the bucket by bits [key_bits - bits, key_bits) of rank - base; key_bits = 0 is the width
// of the type. Keys outside of [base, base + 2^key_bits) go where these bits say. Floats can only
// use the leading bits of the whole rank.
struct ByHighBits {
  unsigned bits = 8;
  unsigned key_bits = 0;
  uint64_t base = 0;
};
// Divides the ranks [first, last] into buckets of about equal width, in order. Keys outside go to
// the outermost buckets. `last` is capped at the greatest rank of the type.
struct ByRange {
  uint64_t first = 0;
  uint64_t last = ~uint64_t{0};
  uint32_t buckets = 256;
};
// Selects the bucket by the leading bits of a hash of the key in memory, which spreads any keys;
// `seed` chooses the hash. (-0 and +0 are two keys.)
struct ByHash {
  unsigned bits = 8;
  uint64_t seed = 0;
};
// Puts splitters[i - 1] <= rank < splitters[i] into bucket i; there is one bucket more than
// splitters. REQUIRES: the splitters are sorted.
struct BySplitters {
  std::vector<uint64_t> splitters;
};
using PartitionBy = std::variant<ByLowBits, ByHighBits, ByRange, ByHash, BySplitters>;

struct PartitionOptions {
  PartitionBy by = ByLowBits{};
  unsigned threads = 1;
  // Keeps the order of items within a bucket. Each thread then reads one equal part of the input.
  bool stable = false;
  // Block size of the pool that partition() makes if it is given none. 0: by the size of a bucket.
  size_t block_bytes = 0;
  std::string name = "partition";  // for messages
};

struct PartitionStats {
  uint64_t distribute_ns = 0;  // reading the input and writing the buckets
  uint64_t join_ns = 0;        // closing gaps and bringing blocks into a row
  uint64_t copied_bytes = 0;   // copied to close the gaps
  uint32_t blocks_peak = 0;    // held after reading the input
  uint32_t blocks = 0;         // held at the end
};

// The buckets. Their memory goes back to the pool with this object, or bucket by bucket. Thread
// safety: bucket() from any thread; release() of different buckets too.
template <Sortable T>
class Partitions {
 public:
  uint32_t buckets() const;
  // Returns the items, aligned to 64 bytes; empty after release().
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

// Partitions items of every type that sort() takes: integers of 8 to 64 bits, float and double,
// pairs, and 128 bits. Errors: invalid_argument; out_of_memory if the pool lacks the blocks that
// the buckets may need (bytes / block_bytes and the unused ones above), or the system has no memory
// for them; out_of_mappings if more than four fifths of vm.max_map_count could be needed.
//
// Several calls may work on one pool at the same time.
//
// The first form takes memory from a pool of its own, which the system has to clear; the second one
// uses a shared pool whose memory may be cleared already.
template <Sortable T>
Result<Partitions<T>> partition(std::span<const T> items, const PartitionOptions& options);
template <Sortable T>
Result<Partitions<T>> partition(const BlockPool& pool, std::span<const T> items,
                                const PartitionOptions& options);

// Partitions in place: the first `count` items of a row of blocks, all but the last one full. A
// block that a thread has read goes back to the pool and makes room for buckets. After an error the
// input is lost. REQUIRES: the blocks belong to this pool.
template <Sortable T>
Result<Partitions<T>> partition_in_place(const BlockPool& pool,
                                         std::vector<BlockPool::Block> blocks, uint64_t count,
                                         const PartitionOptions& options);

// ---- Partitioning into one array without holes.

struct RewiredPartitionOptions {
  PartitionBy by = ByLowBits{};
  unsigned threads = 1;
  // Keeps the order of items within a bucket; with one thread only. Copies nearly everything,
  // because filling up a page moves the end of the next bucket to its front.
  bool stable = false;
  std::string name = "rewired partition";  // for messages
};

struct RewiredPartitionStats {
  uint64_t distribute_ns = 0;  // reading the input and writing the buckets' pages
  uint64_t complete_ns = 0;    // filling up pages
  uint64_t rewire_ns = 0;      // bringing the pages into a row
  uint64_t copied_bytes = 0;   // copied to fill up pages
  uint32_t pages_peak = 0;     // held after reading the input
  uint32_t pages = 0;          // held at the end
};

// Thread safety: a value; different buckets may be used by different threads.
template <Sortable T>
struct RewiredPartitions {
  RewiredVector<T> items;               // all of them, bucket after bucket
  std::vector<uint64_t> offsets = {0};  // begin of each bucket, and the end: buckets() + 1 values
  RewiredPartitionStats stats;

  uint32_t buckets() const { return static_cast<uint32_t>(offsets.size() - 1); }
  std::span<T> bucket(uint32_t index) {
    return {items.data() + offsets[index], offsets[index + 1] - offsets[index]};
  }
  std::span<const T> bucket(uint32_t index) const {
    return {items.data() + offsets[index], offsets[index + 1] - offsets[index]};
  }
};

// Partitions uncounted items into one array without holes, by rewiring the buckets' pages.
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
// buckets that no plain loop can walk through, and partition() makes each bucket contiguous only by
// itself. Here a bucket's last page is filled up with items from the end of the next bucket, so
// that all pages are full; then the pages are shown in a row, bucket after bucket. This copies half
// a page per bucket on average (a third, if buckets are longer than a few pages), and at most every
// item once, if buckets are shorter than a page: then use smaller pages.
//
// Source: the paper named in penstock/rewire.h, section 5.2.4.
//
// Takes the types of partition(). The input stays unchanged.
//
// Pages: those that the items fill, and up to one per bucket; with several threads at most an
// eighth more per bucket, or 256 bytes per bucket and thread if that is more. Spare pages are back
// in the pool at the end. Mappings: at most one per page, and one more.
//
// Errors, after which all pages are back in the pool: invalid_argument; out_of_memory if the pool
// has too few pages; out_of_mappings.
template <Sortable T>
Result<RewiredPartitions<T>> rewired_partition(const PagePool& pool, std::span<const T> items,
                                               const RewiredPartitionOptions& options = {});

}  // namespace penstock
