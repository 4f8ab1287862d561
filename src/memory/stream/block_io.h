#pragma once

// A pool and an engine together: blocks that are being read or written, each with its request. What
// the file streams, the spill buckets and the external sort share, so that many streams of one
// thread draw on one budget of blocks.
//
// Thread safety: one thread at a time, all members may stand on the fault path. REQUIRES: pool and
// engine outlive it, and nobody else calls the engine's wait_any(). Invariants: a block with a
// request in flight is at home and in nobody's hands; a block that was handed to write() is back in
// the pool when its request has ended, with an error too.

#include <vector>

#include "io/engine.h"
#include "memory/pool/pool.h"

namespace penstock::stream {

class BlockIo {
 public:
  BlockIo(pool::Pool& pool, io::Engine& engine);
  ~BlockIo();  // waits for what is in flight

  pool::Pool& pool() { return pool_; }
  io::Engine& engine() { return engine_; }

  // A free block, waiting for writes in flight to give theirs back; no_block when none is in flight
  // and none is free.
  pool::BlockId take() noexcept;
  void give(pool::BlockId block) noexcept { pool_.give(block); }

  // Starts reading into the block at home. It is the caller's again after wait_read().
  void read(pool::BlockId block, const io::File& file, uint64_t offset, size_t bytes) noexcept;
  // Bytes read, or a negative errno.
  int64_t wait_read(pool::BlockId block) noexcept;
  bool is_read(pool::BlockId block) const noexcept { return !pending_[block].request.in_flight; }

  // Starts writing `bytes` of the block's contents from its start plus `skip`; the block goes back
  // to the pool when done. The first error is kept in *error (an errno) and later blocks are still
  // accepted.
  void write(pool::BlockId block, const io::File& file, uint64_t offset, size_t skip, size_t bytes,
             int* error) noexcept;
  // Waits until no write for this error slot (any, when nullptr) is in flight.
  void wait_writes(const int* error = nullptr) noexcept;

 private:
  struct Pending {
    io::Request request;
    int* error = nullptr;  // of a write
    bool writing = false;  // submitted by write(), and not yet given back
  };
  void start(pool::BlockId block, const io::Request& request) noexcept;
  void finish_write(Pending& pending) noexcept;
  bool finish_any() noexcept;  // false: nothing is in flight

  pool::Pool& pool_;
  io::Engine& engine_;
  std::vector<Pending> pending_;  // one per block of the pool
  uint32_t writes_in_flight_ = 0;
};

}  // namespace penstock::stream
