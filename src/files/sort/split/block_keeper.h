#pragma once

// Buckets that grow in blocks of an arena during a distribution. Blocks that memory holds are kept,
// the rest goes to temporaries, the last buckets first. The contents of a block are the caller's:
// numbers, or bytes of items that span blocks.

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
  uint32_t write_blocks = 0;     // least number of free or written blocks during a spill
  bool expects_to_spill = true;  // if false, temporaries are opened only when memory runs out
  bool compresses = false;
  size_t number_bytes = 0;                     // size of an item; 0: items are not numbers
  uint64_t written_blocks_max = ~uint64_t{0};  // the plan has no lists for more blocks
};

// Thread safety: one thread at a time. Invariants: each bucket fills one block at most; buckets
// from spilled_from_ on keep no full block; a block that is being written has no other owner.
class BlockKeeper {
 public:
  BlockKeeper(const BlockKeeperOptions& options, const SpillPlace& place, BlockArena& arena);

  Status open();

  // Takes the bucket's full block, if it has one, and returns an empty block to fill. Waits for the
  // disk if all blocks are being written. After an error the contents of blocks are discarded.
  std::byte* next_block(uint32_t bucket);
  bool has_block(uint32_t bucket) const { return growing_[bucket].current != BlockArena::no_block; }
  // Ends the bucket: its last block holds `block_bytes`.
  void close(uint32_t bucket, uint64_t block_bytes);
  // Releases the bucket's last block and discards its contents.
  void drop(uint32_t bucket);

  // A thread begins a fill before it is given room in blocks, and ends it when it has filled that
  // room, beside other fills. A full block is written when all fills that had begun by then have
  // ended. REQUIRES: provide() was called for the blocks to fill.
  uint64_t begin_fill() { return fills_.begin(); }
  // Thread safety: any thread.
  void end_fill(uint64_t fill) { fills_.end(fill); }
  // Frees blocks until this many are free. Waits for writes, and for fills of blocks to be written.
  // REQUIRES: can_provide(blocks).
  void provide(uint64_t blocks);
  // Whether the arena has this many blocks beside one for each bucket and the spare one.
  bool can_provide(uint64_t blocks) const {
    return blocks + spare_blocks() + options_.buckets <= arena_.blocks();
  }
  uint64_t bytes(uint32_t bucket) const { return growing_[bucket].bytes; }

  // Returns the arena bytes that a bucket takes while it is sorted; nullopt if the arena is too
  // small, so that this bucket and all behind it are sorted from temporaries.
  using RegionBytes = std::function<std::optional<uint64_t>(uint32_t bucket)>;
  // Returns the location of every bucket, including empty ones; the caller fills in the rest. Each
  // spilled bucket keeps its part of the spills. REQUIRES: all buckets are closed.
  Result<Split> finish(const RegionBytes& region_bytes);

  // Error of the first write that failed.
  Status status() const;

 private:
  struct Growing {
    uint32_t current = BlockArena::no_block;
    uint64_t bytes = 0;  // in full blocks; in all blocks after close()
    std::vector<uint32_t> kept;
    std::vector<uint32_t> spilled;
    std::vector<StoredBlock> stored_blocks;
  };

  // A full block to be written, which threads may still be filling.
  struct PendingWrite {
    uint32_t bucket, block;
    uint64_t bytes;
    uint64_t fills;  // number of fills that must have ended before the write
  };

  uint32_t spare_blocks() const { return options_.compresses && options_.number_bytes == 0; }
  uint64_t lists_bytes() const;
  uint32_t spill_of(uint32_t bucket) const { return spills_.part_of(bucket, options_.buckets); }
  uint32_t acquire_block();
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
  uint32_t spilled_from_;  // this bucket and all behind it go to temporaries
  SpillSet spills_;
  uint64_t written_blocks_ = 0;
  MemoryCharge lists_;  // memory of the lists of blocks, and of the requests
  uint64_t spilled_bytes_ = 0;
  uint64_t stored_bytes_ = 0;  // size of the spilled bytes on the disk
  Fills fills_;
  std::deque<PendingWrite> pending_writes_;  // in the order in which they are written
  std::optional<Error> error_;               // the first error, including the ring's
  io::RequestRing ring_;
};

}  // namespace penstock::external
