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
// Each bucket ends in a block that is not full: with 2^b buckets, at most so many blocks are unused
// in part, and where several threads keep the order, as many for each thread. Otherwise, until the
// gaps are closed, each of several threads may also leave a piece of each bucket unused: together
// an eighth of a block per bucket, or 256 bytes per bucket and thread if that is more.
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

#include "penstock/block_pool.h"
#include "penstock/error.h"
#include "penstock/item.h"

namespace penstock {

namespace partition_internal {
class Core;
}

inline constexpr uint32_t partition_buckets_max = 1 << 14;

// ---- which bucket an item belongs to, by its key

// Bits [0, bits).
struct ByLowBits {
  unsigned bits = 8;
};
// Bits [key_bits - bits, key_bits) of key - base; key_bits = 0: of the whole type. Keys outside of
// [base, base + 2^key_bits) go where these bits say.
struct ByHighBits {
  unsigned bits = 8;
  unsigned key_bits = 0;
  uint64_t base = 0;
};
// Shares of [first, last], about equally wide and in order. Keys outside go to the outermost.
// `last` is never more than the greatest key of the type.
struct ByRange {
  uint64_t first = 0;
  uint64_t last = ~uint64_t{0};
  uint32_t buckets = 256;
};
// The leading bits of a hash that spreads any keys; `seed` chooses which.
struct ByHash {
  unsigned bits = 8;
  uint64_t seed = 0;
};
// Bucket i holds splitters[i - 1] <= key < splitters[i]; there is one bucket more than splitters.
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
template <class T>
class Partitions {
 public:
  uint32_t buckets() const;
  // Aligned to 64 bytes. Empty after release().
  std::span<T> bucket(uint32_t index) const;
  void release(uint32_t index);
  const PartitionStats& stats() const;

  explicit Partitions(std::unique_ptr<partition_internal::Core> core);
  Partitions(Partitions&&) noexcept;
  Partitions& operator=(Partitions&&) noexcept;
  ~Partitions();

 private:
  std::unique_ptr<partition_internal::Core> core_;
};

// T is uint32_t, uint64_t, KeyValue32 or KeyValue64.
// Errors: invalid_argument; out_of_memory when the pool has not the blocks that the buckets may
// need (bytes / block_bytes and the unused ones above), or the system has no memory for them;
// out_of_mappings when more than four fifths of vm.max_map_count could be needed.
//
// Several may work on one pool at the same time.
//
// The first takes memory from a pool of its own, which the system has yet to clear; the second from
// one that may have been used before, and is shared.
template <class T>
Result<Partitions<T>> partition(std::span<const T> items, const PartitionOptions& options);
template <class T>
Result<Partitions<T>> partition(const BlockPool& pool, std::span<const T> items,
                                const PartitionOptions& options);

// In place: the first `count` items of a row of blocks, all but the last one full. Each block goes
// back to the pool when a thread has read it, and makes room for buckets.
// After an error the input is gone. REQUIRES: the blocks are of this pool.
template <class T>
Result<Partitions<T>> partition_in_place(const BlockPool& pool,
                                         std::vector<BlockPool::Block> blocks, uint64_t count,
                                         const PartitionOptions& options);

}  // namespace penstock
