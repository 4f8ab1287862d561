#pragma once

// A pool and an I/O engine together: the blocks being read or written, each with its request. The
// file streams, the spill buckets and the external sort share it, so that the many streams of one
// thread draw on one budget of blocks.
//
// Thread safety: one thread at a time; all members may run on the fault path. REQUIRES: pool and
// engine outlive it, and nobody else calls the engine's wait_any(). Invariants: a block with a
// request in flight is at home and has no other owner; a block passed to write() is back in the
// pool when its request has ended, even with an error.

#include <vector>

#include "io/engine.h"
#include "memory/pool/pool.h"

namespace penstock::stream {

class BlockIo {
 public:
  BlockIo(pool::Pool& pool, io::Engine& engine);
  ~BlockIo();  // waits for requests in flight

  pool::Pool& pool() { return pool_; }
  io::Engine& engine() { return engine_; }

  // Returns a free block, after waiting for a write in flight if necessary; no_block if none is
  // free and none is being written.
  pool::BlockId take() noexcept;
  void give(pool::BlockId block) noexcept { pool_.give(block); }

  // Starts reading into the block at home. The caller owns the block again after wait_read().
  void read(pool::BlockId block, const io::File& file, uint64_t offset, size_t bytes) noexcept;
  // Returns the bytes read, or a negative errno.
  int64_t wait_read(pool::BlockId block) noexcept;
  bool is_read(pool::BlockId block) const noexcept { return !pending_[block].request.in_flight; }

  // Starts writing `bytes` of the block's contents, from `skip` bytes into it; the block returns to
  // the pool when the write ends. The first error is stored in *error (an errno); later blocks are
  // still accepted.
  void write(pool::BlockId block, const io::File& file, uint64_t offset, size_t skip, size_t bytes,
             int* error) noexcept;
  // Waits until no write for this error slot (nullptr: for any) is in flight.
  void wait_writes(const int* error = nullptr) noexcept;

 private:
  struct Pending {
    io::Request request;
    int* error = nullptr;  // error slot of a write
    bool writing = false;  // submitted by write(), its block not yet back in the pool
  };
  void start(pool::BlockId block, const io::Request& request) noexcept;
  void finish_write(Pending& pending) noexcept;
  bool finish_any() noexcept;  // false: no request is in flight

  pool::Pool& pool_;
  io::Engine& engine_;
  std::vector<Pending> pending_;  // one per block of the pool
  uint32_t writes_in_flight_ = 0;
};

}  // namespace penstock::stream
