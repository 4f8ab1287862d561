#pragma once

// A queue of blocks, used a block at a time by a tight loop, in programs that handle the blocks
// themselves; and the paper's iterator over it (Algorithms 3 and 4), which checks at each item for
// the end of its block.

#include <cstddef>
#include <cstdint>

#include "bench/harness/bench.h"
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

 private:
  std::byte* const memory_;
  const size_t block_bytes_;
  const uint32_t blocks_;
  os::Semaphore full_, empty_;
};

// Algorithm 4, as printed: one object for both threads, which each have a pointer to it. Its items
// may alias anything, as the paper's __m128i may, so the compiler has to assume that a store
// changes the iterator, and loads and stores its members at each item (section 2.2).
class Iterator {
 public:
  using Item [[gnu::vector_size(16), gnu::may_alias]] = uint64_t;

  Iterator(BlockQueue& queue, size_t block_bytes)
      : queue_(queue), block_items_(block_bytes / sizeof(Item)) {
    writer_.block = items(queue_.take_empty(0));
  }

  void write(Item item) {
    writer_.block[writer_.position] = item;
    if (writer_.position == block_items_ - 1) [[unlikely]] {
      queue_.give_full();
      writer_.block = items(queue_.take_empty(++writer_.number));
      writer_.position = 0;
    } else {
      ++writer_.position;
    }
  }
  Item read() {
    if (reader_.block == nullptr) [[unlikely]]
      reader_.block = items(queue_.take_full(0));
    const Item item = reader_.block[reader_.position];
    if (reader_.position == block_items_ - 1) [[unlikely]] {
      queue_.give_empty();
      reader_.block = items(queue_.take_full(++reader_.number));
      reader_.position = 0;
    } else {
      ++reader_.position;
    }
    return item;
  }
  // Passes on the last block, which need not be full.
  void close() {
    queue_.give_full();
    queue_.close();
  }

 private:
  static Item* items(std::byte* block) { return reinterpret_cast<Item*>(block); }
  struct alignas(128) End {  // each on cache lines of its own
    Item* block = nullptr;
    size_t position = 0;
    uint64_t number = 0;
  };

  BlockQueue& queue_;
  const size_t block_items_;
  End writer_, reader_;
};

}  // namespace penstock::bench
