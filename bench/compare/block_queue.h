#pragma once

// Algorithms 3 and 4 of the paper: a queue of blocks behind an iterator, which asks at each item
// whether its block is at an end. The queue's two ends can also be used a block at a time, by a
// tight loop: what a program does that takes on the blocks itself.

#include <cstddef>
#include <cstdint>

#include "bench/bench.h"
#include "bench/harness/loops.h"
#include "os/semaphore.h"

namespace penstock::bench {

class BlockQueue {
 public:
  BlockQueue(std::byte* memory, size_t block_bytes, uint32_t blocks)
      : memory_(memory), block_bytes_(block_bytes), blocks_(blocks), empty_(blocks) {}

  // A block at a time. REQUIRES: in turns, from block 0 on.
  std::byte* take_empty(uint64_t block) {
    keep(empty_.acquire());
    return memory_ + block % blocks_ * block_bytes_;
  }
  void give_full() { full_.release(); }
  std::byte* take_full(uint64_t block) {
    keep(full_.acquire());
    return memory_ + block % blocks_ * block_bytes_;
  }
  void give_empty() { empty_.release(); }
  void close() { full_.close(); }

  class Writer {
   public:
    explicit Writer(BlockQueue& queue) : queue_(queue) { next_block(); }
    void put(Item item) {
      if (at_ == end_) [[unlikely]] {
        queue_.give_full();
        next_block();
      }
      *at_++ = item;
    }
    void close() {
      queue_.give_full();
      queue_.close();
    }

   private:
    void next_block() {
      at_ = reinterpret_cast<Item*>(queue_.take_empty(block_++));
      end_ = at_ + queue_.block_bytes_ / sizeof(Item);
    }
    BlockQueue& queue_;
    Item* at_ = nullptr;
    Item* end_ = nullptr;
    uint64_t block_ = 0;
  };

  class Reader {
   public:
    explicit Reader(BlockQueue& queue) : queue_(queue) { next_block(); }
    Item get() {
      if (at_ == end_) [[unlikely]] {
        queue_.give_empty();
        next_block();
      }
      return *at_++;
    }

   private:
    void next_block() {
      at_ = reinterpret_cast<Item*>(queue_.take_full(block_++));
      end_ = at_ + queue_.block_bytes_ / sizeof(Item);
    }
    BlockQueue& queue_;
    const Item* at_ = nullptr;
    const Item* end_ = nullptr;
    uint64_t block_ = 0;
  };

 private:
  std::byte* const memory_;
  const size_t block_bytes_;
  const uint32_t blocks_;
  os::Semaphore full_, empty_;
};

}  // namespace penstock::bench
