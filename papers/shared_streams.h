#pragma once

// Streams that grow by faults and that several threads write (Algorithm 7 of the thesis): each is a
// row of addresses as long as the whole input, in which the first write to a block maps it. A
// thread waits only for the mapping of its own block.

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

// Thread safety: any threads write; everything else when they are done, different streams at the
// same time. Invariants: a slot is 0, busy while one thread maps its block, or the block + 1.
class SharedStreams final : public stream::StreamHandler {
 public:
  struct Options {
    uint32_t streams = 1;
    uint64_t bytes_max = 0;  // bytes of one stream
    // Source of the blocks; nullptr: the pool, as they are needed. REQUIRES: it is of this pool,
    // and outlives the writing.
    BlockReserve* reserve = nullptr;
  };
  // REQUIRES: the pool outlives the streams.
  static Result<std::unique_ptr<SharedStreams>> open(pool::Pool& pool, const Options& options);
  ~SharedStreams();  // returns all blocks

  // Ends the growth: a write behind a stream, or into one that was taken, crashes.
  void stop_growing() { registration_ = {}; }

  std::byte* begin(uint32_t stream) const { return range_.begin() + stream * stride_bytes_; }
  // Hands the stream's blocks, in order, all at home, to the caller; the stream is then empty.
  std::vector<pool::BlockId> take_blocks(uint32_t stream);
  uint64_t blocks(uint32_t stream) const;

  fault::Outcome on_fault(const fault::Fault& fault) noexcept override;

 private:
  Label label() const noexcept override { return {"shared streams", stream::ErrorPolicy::stop}; }

  using Slot = std::atomic<uint32_t>;
  static constexpr uint32_t busy = ~uint32_t{0};

  SharedStreams(pool::Pool& pool, BlockReserve* reserve)
      : pool_(pool), reserve_(reserve), block_bytes_(pool.block_bytes()) {}
  Slot& slot(uint64_t index) const { return reinterpret_cast<Slot*>(slots_.begin())[index]; }

  pool::Pool& pool_;
  BlockReserve* const reserve_;
  const size_t block_bytes_;
  uint32_t streams_ = 0;
  uint64_t stride_bytes_ = 0;
  uint64_t slots_per_stream_ = 0;
  os::Reservation range_;
  os::Reservation slots_;             // zero pages until touched
  fault::Registration registration_;  // destroyed first, because the handler uses the others
};

}  // namespace penstock::papers
