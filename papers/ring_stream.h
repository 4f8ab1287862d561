#pragma once

// RingStream (Vortex-R, thesis 003 section 2.2): a stream that is only written, through one or two
// blocks of addresses. Full blocks go to a queue of the stream, in order, and can be mapped in a
// row afterwards; so a stream of any length needs no more address space than another.
//
// See ring_stream.cc for the three ways in which the write pointer returns.

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "memory/fault/registry.h"
#include "memory/pool/pool.h"
#include "memory/stream/stream_handler.h"
#include "os/memory.h"
#include "papers/block_reserve.h"

namespace penstock::papers {

using stream::ErrorPolicy;
using stream::StreamHandler;

enum class Wrap : uint8_t {
  conditional,  // one block reserved; the writer calls reset() when the block is full
  handler,      // one block reserved; the writer stores by store_first(), which comes back
  mask,         // two blocks reserved; the writer takes its offset modulo ring_bytes()
};

struct RingGroupOptions {
  uint32_t streams = 1;
  Wrap wrap = Wrap::mask;
  // Threads that write into the same streams; more than one only with `mask`. Each writes its claim
  // in a stream before it claims more, in pieces of which a block has more than there are threads.
  unsigned threads = 1;
  // Source of the blocks; nullptr: the pool, as they are needed. REQUIRES: it is of this pool, and
  // outlives the writing.
  BlockReserve* reserve = nullptr;
};

// `streams` RingStreams side by side on one pool: one reservation, one registration.
//
// Thread safety: `threads` threads write; everything else by one thread when they are done.
// Invariants: a stream has at most one mapped block; all its others are at home, in its queue.
class RingGroup final : public StreamHandler {
 public:
  // Errors: unsupported for Wrap::handler on other processors than x86-64.
  // REQUIRES: the pool outlives the group; a shared pool is strict.
  static Result<std::unique_ptr<RingGroup>> open(pool::Pool& pool, const RingGroupOptions& options);
  ~RingGroup();  // returns all blocks

  std::byte* begin(uint32_t stream) const { return range_.begin() + stream * stride_bytes_; }
  size_t block_bytes() const { return block_bytes_; }
  // Modulus of the write pointer.
  uint64_t ring_bytes() const { return wrap_ == Wrap::mask ? 2 * block_bytes_ : block_bytes_; }

  // Wrap::conditional: puts a fresh block at begin(stream); the one before is full.
  void reset(uint32_t stream) noexcept;

  // Wrap::handler: stores a word at `at`, or at begin(stream) if `at` is the block's end. Returns
  // the place.
#if defined(__x86_64__)
  static std::byte* store_first(std::byte* at, uint64_t word) noexcept {
    // The handler changes this register only.
    asm volatile("movnti %[word], (%%rdi)" : "+&D"(at) : [word] "r"(word) : "memory");
    return at;
  }
#else
  static std::byte* store_first(std::byte* at, uint64_t) noexcept { return at; }
#endif

  // The calling thread writes no more: no other thread waits for it.
  void leave() noexcept;

  // Hands the stream's blocks, in order, all at home, to the caller; the stream is then empty.
  std::vector<pool::BlockId> take_blocks(uint32_t stream);

  fault::Outcome on_fault(const fault::Fault& fault) noexcept override;

 private:
  Label label() const noexcept override { return {"ring streams", ErrorPolicy::stop}; }

  struct Stream {
    pool::BlockId mapped = pool::no_block;
    uint32_t half = 0;  // half in which it is mapped
    pool::BlockId first = pool::no_block;
    pool::BlockId last = pool::no_block;
  };
  struct Request {
    uint32_t stream;
    uint32_t half;
  };

  RingGroup(pool::Pool& pool, const RingGroupOptions& options);
  void serve(const Request& request) noexcept;
  void enqueue(Stream& stream, std::byte* at) noexcept;
  void finish_round() noexcept;
  void lock() noexcept;
  void unlock() noexcept;

  pool::Pool& pool_;
  BlockReserve* const reserve_;
  const Wrap wrap_;
  const unsigned threads_;
  const uint32_t streams_;
  const size_t block_bytes_;
  const uint64_t stride_bytes_;
  std::unique_ptr<Stream[]> state_;
  std::unique_ptr<pool::BlockId[]> next_;  // next block in the queue, for each block of the pool
  os::Reservation range_;

  std::atomic<bool> locked_{false};
  std::unique_ptr<Request[]> requests_;  // guarded by the lock, like the two below
  unsigned waiting_ = 0;
  unsigned active_ = 0;
  std::atomic<uint32_t> round_{0};
  fault::Registration registration_;  // destroyed first, because the handler uses the others
};

}  // namespace penstock::papers
