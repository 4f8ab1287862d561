#pragma once

// The pass over the items, for any method: shared by partition(), rewired_partition() and the
// methods in papers/.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/bits.h"
#include "penstock/partition.h"
#include "sorting/partition/bucket_function.h"
#include "sorting/partition/bucket_memory.h"

namespace penstock::partition_internal {

inline constexpr uint64_t job_bytes = 2 * MiB;
inline constexpr unsigned threads_max = 1024;

// Items as the kernels see them.
template <class T>
std::span<const WordOf<T>> words_of(std::span<const T> items) {
  return {reinterpret_cast<const WordOf<T>*>(items.data()), items.size()};
}

// The input in jobs, numbered in order.
template <class T>
class Input {
 public:
  explicit Input(std::span<const T> items)
      : items_(items), count_(items.size()), job_items_(job_bytes / sizeof(T)) {}
  // The first `count` items of a row of blocks of this pool.
  static Result<Input> in_place(const BlockPool& pool, std::vector<BlockPool::Block> blocks,
                                uint64_t count, const std::string& name) {
    Input input(std::span<const T>{});
    input.count_ = count;
    input.job_items_ = pool.block_bytes() / sizeof(T);
    if (blocks.size() < input.jobs())
      return failure(ErrorCode::invalid_argument,
                     "partition " + std::to_string(count) + " items in " +
                         std::to_string(blocks.size()) + " blocks",
                     name, "all the blocks that hold them");
    blocks.resize(input.jobs());
    input.blocks_ = std::move(blocks);
    return input;
  }

  uint64_t count() const { return count_; }
  uint64_t jobs() const { return ceil_div(count_, job_items_); }
  bool in_place() const { return !blocks_.empty(); }

  // Calls use(items of the job). In place, the items are gone afterwards.
  template <class Use>
  void with_job(uint64_t job, const Use& use) {
    const uint64_t first = job * job_items_;
    const uint64_t items = std::min(job_items_, count_ - first);
    if (!in_place()) {
      use(items_.subspan(first, items));
    } else {
      use(std::span(reinterpret_cast<const T*>(blocks_[job].bytes().data()), items));
      blocks_[job] = {};
    }
  }

 private:
  std::span<const T> items_;
  std::vector<BlockPool::Block> blocks_;
  uint64_t count_;
  uint64_t job_items_;
};

// Distributes every item to its bucket. All buckets are complete at the return. Errors: the system
// lacks threads; then nothing was done.
template <class T>
Status distribute(Input<T>& input, const Buckets& buckets, BucketMemory& memory, unsigned threads,
                  bool stable);

// All buckets' blocks, at home, with their holes closed. No chains if the memory has failed: the
// pool has its blocks back.
struct Collected {
  std::vector<Chain> chains;
  uint32_t blocks_peak = 0;
  uint64_t copied_bytes = 0;
};
Collected collect(pool::Pool& pool, BucketMemory& memory, uint32_t buckets, unsigned threads,
                  bool stable);

// The error of a pool that lacks blocks although it reported them free.
std::unexpected<Error> no_blocks_left(uint64_t blocks, const std::string& name);

uint64_t now_ns();

// `pool`: source of the blocks; nullptr: opens one.
template <class T>
Result<Partitions<T>> partition_by(const Method& method, const BlockPool* pool,
                                   Input<WordOf<T>> input, const PartitionOptions& options);

}  // namespace penstock::partition_internal
