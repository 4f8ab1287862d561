#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "memory/pool/pool.h"

namespace penstock::papers {

// Blocks taken from a pool before they are needed: who must not fail later, such as a handler of
// faults, takes them from here, whatever others do with the pool meanwhile.
//
// Thread safety: take() from any thread; everything else by one thread, when nobody takes.
class BlockReserve {
 public:
  // REQUIRES: the pool outlives the reserve.
  explicit BlockReserve(pool::Pool& pool) : pool_(pool) {}
  ~BlockReserve() { give_back(); }
  BlockReserve(const BlockReserve&) = delete;
  BlockReserve& operator=(const BlockReserve&) = delete;

  // False when the pool has not so many: then it has them all back. REQUIRES: the reserve is empty.
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
  // A block of the reserve; when they are out, one of the pool's, or no_block. May stand on the
  // fault path. Relaxed: the blocks were there before the threads that take them.
  pool::BlockId take() noexcept {
    const size_t index = next_.fetch_add(1, std::memory_order_relaxed);
    return index < blocks_.size() ? blocks_[index] : pool_.take();
  }
  // What nobody took.
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
