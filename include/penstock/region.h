#pragma once

// Memory that appears where it is touched: a pool of blocks, address ranges with the user's own
// fault handler, and an array that empties itself behind its reader. The streams use the same
// blocks.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "penstock/base.h"

namespace penstock {

namespace pool {
class Pool;
}
namespace stream {
class RegionCore;
class VanishingArrayCore;
}  // namespace stream

// Physical memory in blocks that several users share: vanishing arrays, and regions of the user's
// own. Blocks move from one user to another without being returned to the system and cleared.
//
// A handle: copies are the same pool, which lives as long as any of them, anything that was opened
// on it, or any of its blocks. Thread safety: all members, from any thread, even in a region's
// handler.
class BlockPool {
 public:
  class Block;

  struct Options {
    size_t block_bytes = 2 * MiB;  // a power of two, 4 KiB to 1 GiB
    uint32_t blocks = 0;           // the most blocks that may have memory at a time
    Mechanism mechanism = Mechanism::automatic;
  };
  static Result<BlockPool> open(const Options& options);

  // Takes a block at an address of its own, for its owner only, with undefined contents. Returns an
  // empty one if all blocks are taken, or the system has no memory.
  Block take() const noexcept;

  size_t block_bytes() const;
  uint32_t blocks() const;
  uint32_t blocks_free() const;
  Mechanism mechanism() const;    // the mechanism in use
  uint64_t memory_bytes() const;  // physical memory held by all blocks that were ever taken
  void trim() const;              // gives the memory of free blocks back to the system

 private:
  friend struct internal::Access;
  explicit BlockPool(std::shared_ptr<pool::Pool> core) : core_(std::move(core)) {}
  std::shared_ptr<pool::Pool> core_;
};

// A block that only its owner can reach; it goes back to the pool when it is destroyed. Thread
// safety: a move-only value. The pool lives as long as any of its blocks.
class BlockPool::Block {
 public:
  Block() = default;
  Block(Block&& other) noexcept = default;
  Block& operator=(Block&& other) noexcept;
  ~Block();

  explicit operator bool() const { return pool_ != nullptr; }
  std::span<std::byte> bytes() const;

 private:
  friend class BlockPool;
  friend class stream::RegionCore;
  Block(std::shared_ptr<pool::Pool> pool, uint32_t number)
      : pool_(std::move(pool)), number_(number) {}

  std::shared_ptr<pool::Pool> pool_;
  uint32_t number_ = 0;
};

// A range of addresses with the user's own fault handler: memory that appears where it is touched,
// and that the user takes back at any time. For example a table that computes itself, a cache in
// front of a device, or a sparse array.
//
//   auto memory = penstock::BlockPool::open({.block_bytes = 64 * KiB, .blocks = 16});
//   auto table = penstock::Region::open(
//       *memory, {.bytes = 1 * penstock::TiB},
//       [&](penstock::Region::Blocks& blocks, const penstock::Region::Fault& fault) {
//         penstock::BlockPool::Block block = memory->take();
//         if (!block) block = blocks.hide(oldest());  // takes another block's memory
//         compute(fault.index, block.bytes());        // filled where nobody else can see it
//         blocks.show(fault.index, std::move(block)); // and there it is, all of it at once
//         return penstock::Status();
//       });
//   double f = table->begin<double>()[i];
//
// examples/lazy_table.cc is the whole program.
//
// Thread safety: any number of threads may use the pointer and blocks() at the same time. A move
// and the destructor, which returns all blocks to the pool, must not overlap with anything.
class Region {
 public:
  struct Fault {
    uint64_t index;      // block's index: (address - begin) / block_bytes
    std::byte* address;  // the first byte that was touched
    bool is_write;
    bool is_present;  // the block is there, and its protection forbids the access
  };

  // Operations of a handler on the region; other code may call them, too, at any time. Nothing here
  // allocates. Results of int are 0 or an errno.
  class Blocks {
   public:
    // Shows the block at an index, readable and writable, complete for every thread that sees it.
    // After an error the caller keeps the block: EEXIST if there is one already, ENOMEM if the
    // process has too many mappings (vm.max_map_count). REQUIRES: the block is of the region's
    // pool; index < count().
    [[nodiscard]] int show(uint64_t index, BlockPool::Block&& block);
    // Takes the block, with everything that any thread stored in it, away from its index. Returns
    // an empty one if there is none, if another thread's fault is being served there (so that a
    // shown block stays until the access runs again), or if the system refuses to move it.
    BlockPool::Block hide(uint64_t index);
    // Makes later accesses that the protection forbids call the handler, with Fault::is_present.
    // Lasts until the block is hidden. Returns ENOENT if there is no block.
    [[nodiscard]] int protect(uint64_t index, Protection protection);
    bool is_present(uint64_t index) const;

    uint64_t count() const;
    std::byte* address_of(uint64_t index) const;

   private:
    friend class stream::RegionCore;
    explicit Blocks(stream::RegionCore& core) : core_(core) {}
    stream::RegionCore& core_;
  };

  // Called when a thread touches a missing block, or accesses one against its protection. It runs
  // in that thread, inside a signal handler, so that it must keep the rules of a function that is
  // called at the place of the access:
  //   - One thread at a time calls it for a block, and others that touch the block wait; several
  //     threads may call it for different blocks at once. It may lock a mutex of its own that is
  //     never held while the region is touched.
  //   - It may allocate unless the pointer is handed to the allocator itself. It may wait, use
  //     streams (one with ErrorPolicy::recover only inside a RecoveryPoint of its own) and touch
  //     other blocks of the region, if that causes no cycle. Touching its own block stops the
  //     program.
  //   - The interrupted code sees its changes as if another thread had made them: such variables
  //     have to be atomic, or the compiler may keep them in registers across the touch.
  //   - It must not throw, nor jump out.
  //   - Its stack is the rest of the thread's stack, or the alternate signal stack if there is one.
  // When it returns ok, the access must be possible. An error is handled by Options::policy.
  using Handler = std::function<Status(Blocks& blocks, const Fault& fault)>;

  struct Options {
    uint64_t bytes = 0;  // address space; rounded up to blocks
    // Reaction to an access that the handler refuses: stop or recover, not zeros.
    ErrorPolicy policy = ErrorPolicy::stop;
    std::string name = "region";  // for messages
  };

  // Opens a region whose memory comes from the pool, which several regions and arrays may share.
  static Result<Region> open(const BlockPool& pool, const Options& options, Handler handler);

  template <class T = std::byte>
  T* begin() const {
    return reinterpret_cast<T*>(address());
  }
  uint64_t bytes() const;
  Blocks& blocks() const;
  // Touches every block of [address, address + bytes) once, in order: for system calls, which would
  // get EFAULT. A block that the handler hides meanwhile is gone again. Errors: the handler's.
  Status prepare_read(const void* address, size_t bytes) const;
  Status prepare_write(void* address, size_t bytes) const;

 private:
  friend struct internal::Access;
  explicit Region(internal::Owner<stream::RegionCore> core) : core_(std::move(core)) {}
  std::byte* address() const;

  internal::Owner<stream::RegionCore> core_;
};

// A plain pointer to an array that gets memory as it is written, and loses it as it is read.
//
//   auto memory = penstock::BlockPool::open({.block_bytes = 32 * penstock::MiB, .blocks = 260});
//   auto keys = penstock::VanishingArray::open(*memory, {.bytes = 64 * penstock::GiB});
//   std::generate_n(keys->begin<uint64_t>(), n, random);                     // blocks come
//   uint64_t sum = std::reduce(keys->begin<uint64_t>(), keys->begin<uint64_t>() + n);  // blocks go
//
// Blocks come from a pool that several arrays share, so that memory moves from one to the other
// while one is read and the other is written. (Section 6.5 of Hanel, Arman, Xiao, Keech and
// Loguinov, "Vortex: Extreme-Performance Memory Abstractions for Data-Intensive Streaming
// Applications", ASPLOS 2020: a Vortex-S without the rules for recursion.)
//
// The rules. Writing goes forward, and may come back to any block that is still there. The first
// read of a block that the writer has left by more than comeback_blocks gives everything in front
// of it back to the pool, except the last comeback_blocks: reading goes forward, and skipped data
// are lost. Then the array can be filled again, from the start or from the writer's position, even
// while it is still being read: blocks that were written behind the reader wait for its next pass.
// Bytes that nobody wrote are undefined, and a read of a block in which nobody wrote is an error.
//
// The last blocks, which no reader passes, stay (up to 2 * comeback_blocks + 2 of them) until they
// are overwritten, or clear().
//
// Cost: a fault and two moves per block when filling, the same when draining. `bench vector` shows
// which block sizes hide that.
//
// Thread safety: one thread at a time uses an array and its pointer; arrays of several threads may
// share a pool. A move and the destructor, which returns all blocks, must not overlap with
// anything.
class VanishingArray {
 public:
  struct Options {
    uint64_t bytes = 0;  // longest size of the array: address space
    // M: after reading block x the reader may still read x - M. Library functions need 1, because a
    // load that straddles two blocks touches both.
    uint32_t comeback_blocks = 1;
    // Reaction to a read of vanished data, or a write with an empty pool: stop or recover, not
    // zeros.
    ErrorPolicy policy = ErrorPolicy::stop;
    std::string name = "vanishing array";  // for messages
  };

  static Result<VanishingArray> open(const BlockPool& pool, const Options& options);

  template <class T = std::byte>
  T* begin() const {
    return reinterpret_cast<T*>(address());
  }
  // Gives all blocks back, read or not.
  void clear();
  uint32_t blocks_held() const;
  uint64_t memory_bytes() const;  // memory of the blocks held

  // Makes [address, address + bytes) writable, or readable, without a fault until the array is used
  // elsewhere: for system calls, which would get EFAULT. Counts as touching it. Errors:
  // invalid_argument if the piece spans more than comeback_blocks + 1 blocks; those of an access.
  Status prepare_write(void* address, size_t bytes);
  Status prepare_read(const void* address, size_t bytes);

 private:
  friend struct internal::Access;
  explicit VanishingArray(internal::Owner<stream::VanishingArrayCore> core)
      : core_(std::move(core)) {}
  std::byte* address() const;

  internal::Owner<stream::VanishingArrayCore> core_;
};

}  // namespace penstock
