#pragma once

// Memory of a sort: one range on huge pages with two successive uses.
//
// During the distribution it is cut into blocks that buckets acquire and release (BlockArena).
// During the sort of the buckets it is a ring of regions, each as long as its bucket (RegionRing).
// Memory is never mapped, moved or protected in between: requests and sorts work on plain
// addresses, and direct requests want huge pages whatever the size of a block (on small pages they
// are half as fast, io/README.md).

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "os/memory.h"
#include "penstock/base.h"

namespace penstock::external {

// An arena without memory until open(). Thread safety: one thread at a time. Invariant: a block is
// free or acquired; used blocks are acquired first, to touch little memory.
class BlockArena {
 public:
  static constexpr uint32_t no_block = ~uint32_t{0};

  // Cuts memory of this size into free blocks; memory of another size is released first. The memory
  // is committed, and becomes resident when it is touched. REQUIRES: no block is in use.
  Status open(uint64_t bytes, size_t block_bytes);
  void close() { *this = BlockArena(); }

  // Makes the first `bytes` of the memory resident, a step at a time, on a thread of its own that
  // ends with the returned object: ahead of the blocks' first use, on an idle core. If the system
  // has no thread to give, the first use does it. Thread safety: the thread runs beside all members
  // but open() and close().
  std::jthread start_touching(uint64_t bytes) const;

  std::byte* begin() const { return memory_.begin(); }
  uint64_t bytes() const { return memory_.bytes(); }
  size_t block_bytes() const { return block_bytes_; }
  uint32_t blocks() const { return blocks_; }
  uint32_t blocks_free() const { return static_cast<uint32_t>(free_.size()) + blocks_ - touched_; }
  std::byte* block(uint32_t block) const { return begin() + uint64_t{block} * block_bytes_; }
  uint32_t acquire();  // returns no_block if no block is free
  void release(uint32_t block) { free_.push_back(block); }

  // Moves the blocks in `wanted` so that wanted[i] lies at block i; `no_block` leaves a gap. Each
  // block is copied once, and some once more. All blocks of the arena count as used afterwards.
  // REQUIRES: the blocks are distinct; there is an unwanted block; such blocks hold nothing.
  void arrange(const std::vector<uint32_t>& wanted);

 private:
  Status acquire_memory(uint64_t bytes);
  void touch(uint64_t bytes, const std::stop_token& stop) const;

  os::Reservation memory_;
  size_t block_bytes_ = 0;
  uint32_t blocks_ = 0;
  uint32_t touched_ = 0;  // blocks [touched_, blocks_) were never acquired
  std::vector<uint32_t> free_;
};

// Contiguous regions of a memory range, allocated in order, around and around; a region that is
// released early is free again when all before it are released.
//
// Thread safety: one thread at a time. Invariant: regions do not overlap.
class RegionRing {
 public:
  explicit RegionRing(uint64_t bytes) : bytes_(bytes) {}

  // Returns the start of the new region; nullopt if there is no room now. A region of at most
  // bytes() has room when all others are released.
  std::optional<uint64_t> allocate(uint64_t bytes);
  bool has_room(uint64_t bytes) const { return place_for(bytes).has_value(); }
  void release(uint64_t begin);
  bool empty() const { return regions_.empty(); }
  uint64_t bytes() const { return bytes_; }

 private:
  struct Region {
    uint64_t begin, end;
    bool released;
  };
  std::optional<uint64_t> place_for(uint64_t bytes) const;

  uint64_t bytes_;
  std::deque<Region> regions_;  // in the order of allocation
};

}  // namespace penstock::external
