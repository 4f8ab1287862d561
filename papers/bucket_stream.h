#pragma once

// BucketStream (Vortex-S, 000 section 5.3): one buffer in which writes and reads of one thread
// interleave. Blocks come from a pool that all streams of a group share when the writer enters a
// new block, and return to it behind the reader.
//
// See bucket_stream.cc for states and rules.

#include <cstdint>
#include <memory>

#include "memory/fault/registry.h"
#include "memory/pool/pool.h"
#include "memory/stream/stream_handler.h"
#include "os/memory.h"

namespace penstock::papers {

using stream::ErrorPolicy;
using stream::StreamHandler;

class BucketGroup;

// The way in which blocks return to the pool.
enum class Reclaim {
  by_faults,  // the paper's rules: guards behind the writer, unmapping on read faults; for code
              // that knows only the pointer
  by_caller,  // no guards: the reader calls release() for what it has read
};

struct BucketGroupOptions {
  uint32_t streams = 1;
  uint64_t bytes_max = 0;  // address space of one stream; rounded up to blocks
  Reclaim reclaim = Reclaim::by_faults;
};

// `streams` BucketStreams side by side on one pool: one reservation, one registration.
//
// Thread safety: one thread uses a group at a time (the pool may be shared between groups of
// several threads). Invariants: every block that the group has taken is either mapped at exactly
// one slot, or guarded: at home, waiting to be mapped at its slot again. A slot's address faults
// unless its block is mapped.
class BucketGroup final : public StreamHandler {
 public:
  // REQUIRES: the pool outlives the group; a shared pool is strict (a returned block must not be
  // visible any more).
  static Result<std::unique_ptr<BucketGroup>> open(pool::Pool& pool,
                                                   const BucketGroupOptions& options);
  ~BucketGroup();  // returns all blocks

  uint32_t streams() const { return streams_; }
  uint64_t bytes_max() const { return stride_bytes_; }
  size_t block_bytes() const { return block_bytes_; }
  std::byte* begin(uint32_t stream) const { return range_.begin() + stream * stride_bytes_; }

  // Returns the blocks that lie wholly in [from, to) to the pool; their contents are lost.
  void release(std::byte* from, std::byte* to) noexcept;
  // Returns everything in `stream` from `from` on, except for the block that contains bytes before
  // `from`.
  void trim(uint32_t stream, std::byte* from) noexcept;

  // Number of blocks taken and not yet returned.
  uint32_t blocks_held() const { return blocks_held_; }

  fault::Outcome on_fault(const fault::Fault& fault) noexcept override;

 private:
  Label label() const noexcept override { return {"bucket streams", ErrorPolicy::stop}; }

  struct Slot {
    uint32_t block_plus_one;  // 0: none
    uint32_t pad;
    uint64_t guarded_at;  // 0: mapped
  };
  struct Stream {
    uint64_t used_slots = 0;  // slots [used_slots, ...) are empty
    std::byte* last_read_fault = nullptr;
    uint64_t last_read_at = 0;
    uint64_t dying_plus_one = 0;  // a slot's index
  };

  explicit BucketGroup(pool::Pool& pool) : pool_(pool) {}
  Slot& slot(uint64_t index) const { return reinterpret_cast<Slot*>(slots_.begin())[index]; }
  std::byte* address_of(uint64_t index) const { return range_.begin() + index * block_bytes_; }
  void write_fault(uint64_t index) noexcept;
  void read_fault(uint64_t index, std::byte* address) noexcept;
  void map(uint64_t index, pool::BlockId block) noexcept;
  void let_die(uint64_t index) noexcept;
  void give_back(uint64_t index) noexcept;

  pool::Pool& pool_;
  os::Reservation range_;
  os::Reservation slots_;  // a Slot for every block of every stream; zero pages until touched
  fault::Registration registration_;
  std::unique_ptr<Stream[]> state_;
  uint32_t streams_ = 0;
  uint32_t blocks_held_ = 0;
  size_t block_bytes_ = 0;
  uint64_t stride_bytes_ = 0;
  uint64_t slots_per_stream_ = 0;
  uint64_t now_ = 1;
  Reclaim reclaim_ = Reclaim::by_faults;
};

}  // namespace penstock::papers
