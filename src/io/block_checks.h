#pragma once

// Checks of a temporary's blocks, compared when the file is read back: a bit that flipped on the
// disk or on the way becomes an error instead of a wrong output.
//
// A file consists of blocks of one size. Each has a check (crc32c.h) and the number of bytes
// written to it. The engines report every request (system_calls.h). A read that covers a block's
// bytes is checked at once. Reads of parts of a block are combined if each begins where another one
// ended, for any number of concurrent streams; the block is checked when a stream's reads have
// covered it, in whatever order they complete.
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
    uint32_t check = 0;  // unwritten bytes count as zeros
    uint32_t bytes = 0;
  };
  // The partial reads that a request's first and last block belong to. 0: none.
  struct PartialReadIds {
    uint32_t first = 0;
    uint32_t last = 0;
  };
  struct Damage {
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };

  // Uses blocks of this size, with a list that grows with the file. For 0, blocks become larger as
  // the file does, so that there are few.
  explicit BlockChecks(size_t block_bytes);

  void wrote(uint64_t offset, const std::byte* data, size_t bytes);
  // Bracket a read from its submission to its result. False: the data differ from those written.
  PartialReadIds begin_read(uint64_t offset, size_t bytes) noexcept;
  bool end_read(uint64_t offset, const std::byte* data, size_t bytes,
                const PartialReadIds& ids) noexcept;

  // Returns a block's check of a file that stays, for a later run that restores it.
  Block block(uint64_t number) const;
  void restore(uint64_t number, const Block& block);
  // Returns the first damage found.
  std::optional<Damage> damage() const;

 private:
  // The range [begin, next) of a block that a stream has read or requested. Parts in flight never
  // overlap: a part that is read again starts anew.
  struct PartialRead {
    uint32_t id = 0;
    uint64_t begin = 0;
    uint64_t next = 0;
    uint64_t arrived_bytes = 0;
    uint32_t check = 0;  // check of the arrived bytes
  };

  Block& at(uint64_t number) REQUIRES_LOCK(mutex_);
  void make_fewer() REQUIRES_LOCK(mutex_);
  uint64_t end_of(uint64_t number) const REQUIRES_LOCK(mutex_);
  uint32_t id_of(uint64_t number, uint64_t begin, uint64_t end) REQUIRES_LOCK(mutex_);
  bool compare(uint64_t number, uint32_t check) REQUIRES_LOCK(mutex_);
  bool arrived(uint64_t number, uint32_t id, uint64_t bytes, uint32_t check) REQUIRES_LOCK(mutex_);

  const bool grows_;
  mutable Mutex mutex_;
  uint64_t block_bytes_ GUARDED_BY(mutex_);
  std::vector<Block> blocks_ GUARDED_BY(mutex_);
  std::unordered_multimap<uint64_t, PartialRead> parts_ GUARDED_BY(mutex_);  // by block
  uint32_t last_id_ GUARDED_BY(mutex_) = 0;
  std::optional<Damage> damage_ GUARDED_BY(mutex_);
};

}  // namespace penstock::io
