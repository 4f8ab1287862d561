#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "memory/pool/pool.h"

namespace penstock::papers {

// Blocks taken from a pool in advance, for code that must not fail later, such as a fault handler.
// Other users of the pool cannot take them.
//
// Thread safety: take() from any thread; everything else by one thread, when nobody takes.
class BlockReserve {
 public:
  // REQUIRES: the pool outlives the reserve.
  explicit BlockReserve(pool::Pool& pool) : pool_(pool) {}
  ~BlockReserve() { give_back(); }
  BlockReserve(const BlockReserve&) = delete;
  BlockReserve& operator=(const BlockReserve&) = delete;

  // False if the pool lacks blocks: then it has all of them back. REQUIRES: the reserve is empty.
  bool fill(uint64_t blocks) {
    blocks_.reserve(blocks);
    while (blocks_.size() < blocks) {
      const pool::BlockId block = pool_.take();
      if (block == pool::no_block) {
        give_back();
        return false;
      }
      blocks_.push_back(block);
    }
    return true;
  }
  // Returns a block of the reserve; when it is empty, one of the pool's, or no_block. May run on
  // the fault path. Relaxed: the blocks were there before the threads that take them.
  pool::BlockId take() noexcept {
    const size_t index = next_.fetch_add(1, std::memory_order_relaxed);
    return index < blocks_.size() ? blocks_[index] : pool_.take();
  }
  // Returns unused blocks to the pool.
  void give_back() {
    for (size_t i = next_.load(std::memory_order_relaxed); i < blocks_.size(); ++i)
      pool_.give(blocks_[i]);
    blocks_.clear();
    next_.store(0, std::memory_order_relaxed);
  }

 private:
  pool::Pool& pool_;
  std::vector<pool::BlockId> blocks_;
  std::atomic<size_t> next_{0};
};

}  // namespace penstock::papers
