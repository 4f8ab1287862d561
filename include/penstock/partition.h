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
// The methods are those of A. Labbane, "Memory-Efficient Multi-Threaded Streaming Partitioning
// Algorithm" (Texas A&M University, 2022), and one more, which is the default:
//
// clang-format off
//   method           buckets of   a bucket's memory while it is written        unused blocks, at most
//   shared_pieces    all threads  blocks at home; a thread claims a piece      2^b
//   private_streams  each thread  a row of blocks, one more at each fault      threads * 2^b   (1A)
//   private_rings    each thread  one or two addresses that blocks pass by     threads * 2^b   (1B)
//   shared_rings     all threads  the same; all threads wait for each other    2^b             (2A)
//   shared_streams   all threads  as private_streams; claims by line           2^b             (2B)
// clang-format on
//
// Until shared_pieces has closed the gaps, each of several threads may also leave a piece of each
// bucket unused: together an eighth of a block per bucket, or 256 bytes per bucket and thread if
// that is more. shared_rings wants no more threads than there are cores to run them.

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

enum class PartitionMethod : uint8_t {
  // shared_pieces. When stable with several threads: private_streams, or private_rings where
  // bytes * 2^b * threads of addresses are more than 16 TiB.
  automatic,
  private_streams,
  private_rings,
  shared_rings,
  shared_streams,
  shared_pieces,
};
const char* name_of(PartitionMethod method);

// How a ring's write pointer comes back to its beginning.
enum class RingWrap : uint8_t {
  conditional,  // one block reserved; a comparison at each full line, and a call
  handler,      // one block reserved; the fault behind it resets the pointer (x86-64)
  mask,         // two blocks reserved; modular arithmetic at each full line
};

struct PartitionOptions {
  PartitionBy by = ByLowBits{};
  PartitionMethod method = PartitionMethod::automatic;
  unsigned threads = 1;
  // Items of a bucket keep their order. With several threads each of them then takes one part of
  // the input, as long as the others; the shared methods cannot be stable with several.
  bool stable = false;
  RingWrap wrap = RingWrap::mask;
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
// out_of_mappings when more than four fifths of vm.max_map_count could be needed; unsupported
// for RingWrap::handler on other processors than x86-64.
//
// Several may work on one pool at the same time. All but shared_pieces, which takes blocks as it
// needs them, take first whatever they may need. They do so because they cannot return an error
// later: the program stops with a message if a new pool's memory is not to be had while it works,
// or if others use up the process's mappings.
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
// After an error the input is gone.
// REQUIRES: the blocks are of this pool. But for shared_pieces, nobody else takes blocks from the
// pool meanwhile: those that come back are needed.
template <class T>
Result<Partitions<T>> partition_in_place(const BlockPool& pool,
                                         std::vector<BlockPool::Block> blocks, uint64_t count,
                                         const PartitionOptions& options);

}  // namespace penstock
