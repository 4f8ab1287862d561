#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "memory/pool/pool.h"

namespace penstock::pool {

// The free blocks of a pool, in two stacks: blocks with memory, and blocks without. The former are
// taken first, the one given last before all others: its pages are the likeliest to be in a cache.
//
// Thread safety: all members, from any thread. Lock-free except that take() waits for a block that
// trim() is handling. Invariants: each block is in at most one stack. free_ = blocks in the stacks
// + those that trim() is handling - those that a take() has claimed and not yet found.
class BlockList {
 public:
  explicit BlockList(uint32_t blocks);

  struct Taken {
    BlockId block = no_block;
    bool has_memory = false;
  };
  Taken take() noexcept;
  void give(BlockId block, bool has_memory) noexcept;

  // Calls discard(block), which returns whether it freed memory, for each free block that has any.
  template <class Discard>
  void trim(Discard discard) noexcept {
    // A count bounds the loop, as blocks that keep their memory, or are given meanwhile, return.
    for (uint32_t left = blocks_free(); left > 0; --left) {
      const BlockId block = pop(with_memory_);
      if (block == no_block) return;
      push(discard(block) ? without_memory_ : with_memory_, block);
    }
  }

  uint32_t blocks_free() const noexcept { return free_.load(std::memory_order_relaxed); }

 private:
  // The index of the first block in the low half. The high half counts changes, without which a
  // block that was popped and pushed back meanwhile would look unchanged (ABA).
  using Head = std::atomic<uint64_t>;

  BlockId pop(Head& head) noexcept;
  void push(Head& head, BlockId block) noexcept;

  alignas(64) Head with_memory_{no_block};
  alignas(64) Head without_memory_{no_block};
  alignas(64) std::atomic<uint32_t> free_;
  std::unique_ptr<std::atomic<BlockId>[]> next_;
};

}  // namespace penstock::pool
