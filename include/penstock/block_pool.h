#pragma once

// Physical memory in blocks, which several users share: vanishing arrays, and regions of the
// user's own (penstock/region.h). What one gives back, another can take: memory moves without
// being returned to the system and cleared.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "penstock/error.h"
#include "penstock/mechanism.h"
#include "penstock/units.h"

namespace penstock {

namespace pool {
class Pool;
}
namespace stream {
class RegionCore;
}

// A handle: copies are the same pool, which lives as long as any of them, or anything that was
// opened on it. Thread safety: all members, from any thread, also inside a region's handler.
class BlockPool {
 public:
  class Block;

  struct Options {
    size_t block_bytes = 2 * MiB;  // a power of two, at least 4 KiB
    uint32_t blocks = 0;           // the most that may have memory at a time
    Mechanism mechanism = Mechanism::automatic;
  };
  static Result<BlockPool> open(const Options& options);

  // A block at an address of its own, for its owner alone. What it holds is undefined. Empty when
  // all are out, or the system has no memory.
  Block take() const noexcept;

  size_t block_bytes() const;
  uint32_t blocks() const;
  uint32_t blocks_free() const;
  Mechanism mechanism() const;    // the one in use
  uint64_t memory_bytes() const;  // physical memory held: of all blocks that were ever taken
  void trim() const;              // gives the memory of free blocks back to the system

  // For the library itself.
  const std::shared_ptr<pool::Pool>& internal() const { return pool_; }

 private:
  explicit BlockPool(std::shared_ptr<pool::Pool> pool) : pool_(std::move(pool)) {}
  std::shared_ptr<pool::Pool> pool_;
};

// A block that its owner alone can reach; goes back to the pool at the end of its life.
// Thread safety: a move-only value. REQUIRES: the pool outlives it.
class BlockPool::Block {
 public:
  Block() = default;
  Block(Block&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), number_(other.number_) {}
  Block& operator=(Block&& other) noexcept;
  ~Block();

  explicit operator bool() const { return pool_ != nullptr; }
  std::span<std::byte> bytes() const;

 private:
  friend class BlockPool;
  friend class stream::RegionCore;
  Block(pool::Pool* pool, uint32_t number) : pool_(pool), number_(number) {}

  pool::Pool* pool_ = nullptr;
  uint32_t number_ = 0;
};

}  // namespace penstock
