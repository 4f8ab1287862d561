#include "memory/pool/block_list.h"

#include "os/futex.h"

namespace penstock::pool {

BlockList::BlockList(uint32_t blocks)
    : free_(blocks), next_(std::make_unique<std::atomic<BlockId>[]>(blocks)) {
  for (uint32_t block = 0; block < blocks; ++block)
    next_[block].store(block + 1 < blocks ? block + 1 : no_block, std::memory_order_relaxed);
  if (blocks > 0) without_memory_.store(0, std::memory_order_release);
}

BlockId BlockList::pop(Head& head) noexcept {
  // acquire, pairs with push(): shows everything done to the block before it was given.
  uint64_t seen = head.load(std::memory_order_acquire);
  while (true) {
    const auto block = static_cast<BlockId>(seen);
    if (block == no_block) return no_block;
    // `next` is stale if another thread has popped the block meanwhile; then the exchange fails.
    const uint64_t next = next_[block].load(std::memory_order_relaxed);
    const uint64_t changed = ((seen >> 32) + 1) << 32 | next;
    if (head.compare_exchange_weak(seen, changed, std::memory_order_acquire)) return block;
  }
}

void BlockList::push(Head& head, BlockId block) noexcept {
  uint64_t seen = head.load(std::memory_order_relaxed);
  uint64_t changed;
  do {
    next_[block].store(static_cast<BlockId>(seen), std::memory_order_relaxed);
    changed = ((seen >> 32) + 1) << 32 | block;
  } while (!head.compare_exchange_weak(seen, changed, std::memory_order_release,
                                       std::memory_order_relaxed));
}

BlockList::Taken BlockList::take() noexcept {
  uint32_t free = free_.load(std::memory_order_relaxed);
  do {
    if (free == 0) return {};
  } while (!free_.compare_exchange_weak(free, free - 1, std::memory_order_acquire,
                                        std::memory_order_relaxed));
  // A block is claimed; it is in a stack, or trim() is about to put it there.
  while (true) {
    if (const BlockId block = pop(with_memory_); block != no_block) return {block, true};
    if (const BlockId block = pop(without_memory_); block != no_block) return {block, false};
    os::spin_pause();
  }
}

void BlockList::give(BlockId block, bool has_memory) noexcept {
  push(has_memory ? with_memory_ : without_memory_, block);
  free_.fetch_add(1, std::memory_order_release);  // after the push, so that a claim can be met
}

}  // namespace penstock::pool
