#pragma once

// A plain pointer to an array that gets its memory as it is written, and loses it as it is read.
//
//   auto memory = penstock::BlockPool::open({.block_bytes = 32 * penstock::MiB, .blocks = 260});
//   auto keys = penstock::VanishingArray::open(*memory, {.bytes = 64 * penstock::GiB});
//   std::generate_n(keys->begin<uint64_t>(), n, random);                     // blocks come
//   uint64_t sum = std::reduce(keys->begin<uint64_t>(), keys->begin<uint64_t>() + n);  // blocks go
//
// Blocks come from a pool that several arrays share, so that memory moves from one to the other
// while one is read and the other is written. (Section 6.5 of Hanel, Carnovale, Tong and Loguinov,
// "Vortex: Extreme-Performance Memory Abstractions for Data-Intensive Streaming Applications",
// ASPLOS 2020: a Vortex-S without the rules for recursion.)
//
// The rules. Writing goes forward, and may come back anywhere as long as the block is there. The
// first read of a block that the writer has left by more than comeback_blocks gives everything in
// front of it back to the pool, but for the last comeback_blocks: reading goes forward, and what it
// skips is gone. Then the array can be filled again, from the start or from where the writer
// stands, also while it is still being read: blocks that were written behind the reader wait for
// its next pass. What nobody wrote reads as anything, and a read of a block in which nobody wrote
// is an error.
//
// The blocks at the end, which no reader passes, stay (up to 2 * comeback_blocks + 2 of them) until
// they are overwritten, or clear().
//
// Cost: a fault and two moves per block when filling, the same when draining. `bench vector` says
// which block sizes hide that.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "penstock/block_pool.h"
#include "penstock/error.h"
#include "penstock/error_policy.h"

namespace penstock {

namespace stream {
class VanishingArrayCore;
}

// Thread safety: one thread at a time uses an array and its pointer; arrays of several threads may
// share a pool. A move must not overlap with anything.
class VanishingArray {
 public:
  struct Options {
    uint64_t bytes = 0;  // the longest that the array may become: address space
    // M: after reading block x the reader may still read x - M. 1 is what library functions need: a
    // load that straddles two blocks touches both.
    uint32_t comeback_blocks = 1;
    // For a read of what has vanished, and for a write when the pool is empty: stop or recover. No
    // zeros.
    ErrorPolicy policy = ErrorPolicy::stop;
    std::string name = "vanishing array";  // for messages
  };

  static Result<VanishingArray> open(const BlockPool& pool, const Options& options);
  VanishingArray(VanishingArray&&) noexcept;
  VanishingArray& operator=(VanishingArray&&) noexcept;
  ~VanishingArray();  // gives all blocks back

  template <class T = std::byte>
  T* begin() const {
    return reinterpret_cast<T*>(address());
  }
  // Gives all blocks back, read or not.
  void clear();
  uint32_t blocks_held() const;
  uint64_t memory_bytes() const;  // of the blocks held

  // [address, address + bytes) can be written, or read, without a fault until the array is used
  // elsewhere: for system calls, which would get EFAULT. Counts as touching it. Errors:
  // invalid_argument when the piece spans more than comeback_blocks + 1 blocks; what the access
  // would have met.
  Status prepare_write(void* address, size_t bytes);
  Status prepare_read(const void* address, size_t bytes);

 private:
  explicit VanishingArray(std::unique_ptr<stream::VanishingArrayCore> core);
  std::byte* address() const;

  std::unique_ptr<stream::VanishingArrayCore> core_;
};

}  // namespace penstock
