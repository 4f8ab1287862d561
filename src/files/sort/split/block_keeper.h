#pragma once

// Buckets that grow in blocks of an arena while a distribution goes on: what memory holds is kept,
// the rest goes to temporaries, the last buckets first. What a block holds is the caller's
// business: numbers or bytes of items that span blocks.

#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "files/sort/context.h"
#include "files/sort/spill/block_arena.h"
#include "files/sort/split/fills.h"
#include "files/sort/split/split.h"
#include "io/request_ring.h"

namespace penstock::external {

struct BlockKeeperOptions {
  uint32_t buckets = 1;
  uint32_t write_blocks = 0;     // free or being written, at least, while something is spilled
  bool expects_to_spill = true;  // otherwise temporaries are opened when they are needed after all
  bool compresses = false;
  size_t number_bytes = 0;                     // of an item; 0: no numbers
  uint64_t written_blocks_max = ~uint64_t{0};  // for more the plan has no lists
};

// Thread safety: one thread at a time. Invariants: each bucket gives room in one block at most; buckets from
// spilled_from_ on keep no full block; a block that is being written belongs to nobody else.
class BlockKeeper {
 public:
  BlockKeeper(const BlockKeeperOptions& options, const SpillPlace& place, BlockArena& arena);

  Status open();

  // The bucket's block is full, or it has none yet: a block to fill. Waits for the disk where all
  // are being written. After an error what the blocks hold is thrown away.
  std::byte* next_block(uint32_t bucket);
  bool has_block(uint32_t bucket) const { return growing_[bucket].current != BlockArena::no_block; }
  // Nothing more comes: the present block holds so many bytes.
  void close(uint32_t bucket, uint64_t block_bytes);
  // The same, and what it holds is not wanted.
  void drop(uint32_t bucket);

  // A thread begins a fill before it is given room in blocks, and ends it when it has filled that, while others
  // fill theirs. A full block is written when all fills have ended that had begun by then.
  // REQUIRES: provide() was called for the blocks that it is given.
  uint64_t begin_fill() { return fills_.begin(); }
  // Thread safety: any thread.
  void end_fill(uint64_t fill) { fills_.end(fill); }
  // So many blocks are free afterwards. Waits for writes, and for fills of what is to be written.
  // REQUIRES: can_provide(blocks).
  void provide(uint64_t blocks);
  // Whether the arena has these beside one for each bucket, and the spare one of compression.
  bool can_provide(uint64_t blocks) const {
    return blocks + spare_blocks() + options_.buckets <= arena_.blocks();
  }
  uint64_t bytes(uint32_t bucket) const { return growing_[bucket].bytes; }

  // What a bucket takes of the arena while it is sorted; nothing: more than there is, so that it is
  // sorted from temporaries, and all behind it.
  using RegionBytes = std::function<std::optional<uint64_t>(uint32_t bucket)>;
  // When all are closed: where each bucket lies, empty ones too. What else there is to say of them
  // is the caller's business. Each that is spilled keeps its part of the spills.
  Result<Split> finish(const RegionBytes& region_bytes);

  // The first write that failed.
  Status status() const;

 private:
  struct Growing {
    uint32_t current = BlockArena::no_block;
    uint64_t bytes = 0;  // of full blocks; when it is closed, all
    std::vector<uint32_t> kept;
    std::vector<uint32_t> spilled;
    std::vector<StoredBlock> stored_blocks;
  };

  // A block on its way to a temporary that may still be being filled.
  struct Leaving {
    uint32_t bucket, block;
    uint64_t bytes;
    uint64_t fills;  // until so many have ended
  };

  uint32_t spare_blocks() const { return options_.compresses && options_.number_bytes == 0; }
  uint64_t lists_bytes() const;
  uint32_t spill_of(uint32_t bucket) const { return spills_.part_of(bucket, options_.buckets); }
  uint32_t take_block();
  void spill_down_to(uint32_t bucket);
  void spill_rest(uint32_t bucket);
  void write(uint32_t bucket, uint32_t block, uint64_t bytes);
  void write_filled();
  void start_write(uint32_t bucket, uint32_t block, uint64_t bytes);
  uint32_t compress(uint32_t block, uint64_t bytes, uint64_t* stored_bytes);
  void finish_write();
  Status open_spills();

  const BlockKeeperOptions options_;
  const SpillPlace& place_;
  BlockArena& arena_;
  std::vector<Growing> growing_;
  uint32_t spilled_from_;  // buckets from here on go to temporaries
  SpillSet spills_;
  uint64_t written_blocks_ = 0;
  MemoryCharge lists_;  // of what is known of them, and of the requests
  uint64_t spilled_bytes_ = 0;
  uint64_t stored_bytes_ = 0;  // of these, on the disk
  Fills fills_;
  std::deque<Leaving> leaving_;  // in the order in which they are written
  std::optional<Error> error_;   // the first, that of the ring included
  io::RequestRing ring_;
};

}  // namespace penstock::external
