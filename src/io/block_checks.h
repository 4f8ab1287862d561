#pragma once

// Checks of what is written to a temporary, looked at when it is read back: a bit that flipped on
// the disk or on the way is an error, and not a wrong output.
//
// A file is seen in blocks of one size, of which each has a check (crc32c.h) and how many bytes of
// it were written. The engines tell of every request (system_calls.h). A read that covers what a
// block holds is checked at once. Of reads of parts of a block those count that go on where another
// ended, by as many streams as there are, and the block is checked when they have gone over all of
// it, in whatever order they end.
//
// Thread safety: all members from any thread. REQUIRES: every byte is written once, and a block
// from its start. Memory: eight bytes for each block, and at most a quarter more while lists grow;
// and some forty for each stream that reads parts of blocks.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"

namespace penstock::io {

class BlockChecks {
 public:
  struct Block {
    uint32_t check = 0;  // as if what was not written were zeros
    uint32_t bytes = 0;
  };
  // Reads of parts of the first and of the last block of a request: their turns. 0: none.
  struct Turns {
    uint32_t first = 0;
    uint32_t last = 0;
  };
  struct Damage {
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };

  // Blocks of this size, and a list of them that grows with the file; of what nobody has a list
  // for, 0: blocks that become larger as the file does, so that there are few.
  explicit BlockChecks(size_t block_bytes);

  void wrote(uint64_t offset, const std::byte* data, size_t bytes);
  // A read is submitted; and it has come back with so many bytes. False: they are not what was
  // written.
  Turns begin_read(uint64_t offset, size_t bytes) noexcept;
  bool end_read(uint64_t offset, const std::byte* data, size_t bytes, const Turns& turns) noexcept;

  // Of a file that stays: what was written to a block, for whoever reads it in a later run.
  Block block(uint64_t number) const;
  void believe(uint64_t number, const Block& block);
  // The first that was found.
  std::optional<Damage> damage() const;

 private:
  // What a stream has read of a block, or asked for: [begin, next). Parts of a block that are under
  // way never overlap: one that is gone over again begins anew.
  struct Part {
    uint32_t turn = 0;
    uint64_t begin = 0;
    uint64_t next = 0;
    uint64_t arrived_bytes = 0;
    uint32_t check = 0;  // of what has arrived
  };

  Block& at(uint64_t number) REQUIRES_LOCK(mutex_);
  void make_fewer() REQUIRES_LOCK(mutex_);
  uint64_t end_of(uint64_t number) const REQUIRES_LOCK(mutex_);
  uint32_t turn_of(uint64_t number, uint64_t begin, uint64_t end) REQUIRES_LOCK(mutex_);
  bool compare(uint64_t number, uint32_t check) REQUIRES_LOCK(mutex_);
  bool arrived(uint64_t number, uint32_t turn, uint64_t bytes, uint32_t check)
      REQUIRES_LOCK(mutex_);

  const bool grows_;
  mutable Mutex mutex_;
  uint64_t block_bytes_ GUARDED_BY(mutex_);
  std::vector<Block> blocks_ GUARDED_BY(mutex_);
  std::unordered_multimap<uint64_t, Part> parts_ GUARDED_BY(mutex_);  // by the block
  uint32_t turns_ GUARDED_BY(mutex_) = 0;
  std::optional<Damage> damage_ GUARDED_BY(mutex_);
};

}  // namespace penstock::io
