#pragma once

// The memory of the method M3: see shared_pieces.cc.

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "os/memory.h"
#include "partition/write_combine.h"
#include "pool/pool.h"

namespace penstock::partition_internal {

// Thread safety: each worker's place() by that worker; everything else when all are done.
// Invariants: a bucket is a row of pieces, numbered without gaps; each piece has been claimed by
// exactly one worker, and none crosses a block. A block's number in the table is 0 until the worker
// that claimed its first piece has taken it from the pool.
class SharedPieces {
 public:
  struct Options {
    uint32_t buckets = 1;
    unsigned workers = 1;
    uint64_t bytes_max = 0;  // of all buckets together
    size_t piece_bytes = 0;  // a power of two, at most a block
  };
  static Result<std::unique_ptr<SharedPieces>> open(pool::Pool& pool, const Options& options);
  ~SharedPieces();  // gives back the blocks that were not taken out

  Destination destination(unsigned worker);
  // Whether the pool had no block when one was needed. Lines have then gone nowhere.
  bool failed() const { return failed_.load(std::memory_order_relaxed); }

  // A piece of a bucket, in bytes from its beginning, that its worker has not filled.
  struct Hole {
    uint64_t from, to;
  };
  // `end`: behind the last byte that the worker wrote into the bucket, or nullptr.
  Hole hole(unsigned worker, uint32_t bucket, const std::byte* end) const;
  uint64_t extent_bytes(uint32_t bucket) const;
  std::vector<pool::BlockId> take_blocks(uint32_t bucket);

 private:
  // One line of the cache each: workers claim in different buckets at the same time.
  struct alignas(64) Cursor {
    std::atomic<uint64_t> claimed_bytes{0};
  };
  struct Worker {
    SharedPieces* all;
    std::unique_ptr<uint64_t[]> piece_at;  // per bucket, where in it the piece in hand begins
  };
  using Entry = std::atomic<uint32_t>;  // block + 1
  static constexpr uint32_t none_left = ~uint32_t{0};

  explicit SharedPieces(pool::Pool& pool) : pool_(pool), block_bytes_(pool.block_bytes()) {}
  static std::byte* place(void* self, uint32_t bucket, std::byte* at, const std::byte* line);
  std::byte* claim(Worker& worker, uint32_t bucket);
  Entry& entry(uint32_t bucket, uint64_t index) const {
    return reinterpret_cast<Entry*>(table_.begin())[bucket * entries_per_bucket_ + index];
  }

  pool::Pool& pool_;
  const size_t block_bytes_;
  uint32_t buckets_ = 0;
  size_t piece_bytes_ = 0;
  uint64_t entries_per_bucket_ = 0;
  std::unique_ptr<Cursor[]> cursors_;
  std::vector<Worker> workers_;
  os::Reservation table_;  // zero pages until touched
  os::Reservation waste_;
  std::byte* waste_line_ = nullptr;
  std::atomic<bool> failed_{false};
};

}  // namespace penstock::partition_internal
