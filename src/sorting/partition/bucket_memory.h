#pragma once

// The interface between the pass over the items (pass.h), which all methods share, and the memory
// of the buckets while they are written. The library has one method (shared_pieces.h); other
// published ones are in papers/.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "memory/pool/pool.h"
#include "penstock/base.h"
#include "sorting/scatter/lines.h"

namespace penstock::partition_internal {

// A bucket as it was written: blocks in order, all at home, and the holes without items in them.
struct Chain {
  struct Hole {
    uint64_t from, to;  // bytes from the beginning of the first block
  };
  std::vector<pool::BlockId> blocks;
  uint64_t begin_bytes = 0;  // begin of its items in the first block
  uint64_t extent_bytes = 0;
  std::vector<Hole> holes;  // in order, disjoint, within the extent
};

struct MemoryOptions {
  uint32_t buckets = 1;
  unsigned workers = 1;
  uint64_t bytes_max = 0;  // total of all buckets
  size_t item_bytes = 1;
  bool stable = false;    // worker 0 has the first part of the input, worker 1 the next
  bool staggered = true;  // buckets may begin within their first blocks
  std::string name;
};

// Thread safety: functions with a worker are called by that worker, until leave(); all others by
// one thread when all workers have left, but take() of different buckets at the same time.
class BucketMemory {
 public:
  virtual ~BucketMemory() = default;

  virtual scatter::LineBytes line_bytes() const { return scatter::LineBytes::small; }
  virtual scatter::RoomMaker room_maker(unsigned worker) = 0;
  // The address at which a worker's bucket begins; nullptr if the maker of rooms decides it.
  virtual std::byte* start(unsigned worker, uint32_t bucket) {
    (void)worker, (void)bucket;
    return nullptr;
  }
  virtual void leave(unsigned worker) { (void)worker; }
  virtual bool failed() const { return false; }

  // Appends the last bytes of a worker's bucket, less than a line, to the room that is left.
  virtual void finish(unsigned worker, uint32_t bucket, scatter::Room room,
                      std::span<const std::byte> rest) = 0;

  // Called when everything is written. Returns whether each bucket already lies in a row of
  // addresses; then it stays there until take(), or the end of this object.
  virtual bool complete() { return false; }
  struct Row {
    std::span<std::byte> bytes;
    uint64_t blocks = 0;
  };
  virtual Row row(uint32_t bucket) {
    (void)bucket;
    return {};
  }
  // The caller owns the blocks. After std::bad_alloc they are still here, or back in the pool.
  virtual Chain take(uint32_t bucket) = 0;
};

// A method of keeping the buckets. Thread safety: all members, from any thread.
class Method {
 public:
  // Whether several workers can keep the order of the input.
  virtual bool can_be_stable() const { return true; }
  // The most blocks that may be in use.
  virtual uint64_t blocks_needed(const MemoryOptions& options, size_t block_bytes) const = 0;
  // The most mappings that this many blocks may need before they are joined; each block away from
  // home is one, and so is each gap between two.
  virtual uint64_t mappings_needed(const MemoryOptions& options, uint64_t blocks) const {
    (void)options, (void)blocks;
    return 0;
  }
  virtual size_t block_bytes_min(const MemoryOptions& options) const {
    (void)options;
    return 4 * KiB;
  }
  // `blocks_ahead`: a method that cannot return an error later takes this many now.
  virtual Result<std::unique_ptr<BucketMemory>> open(pool::Pool& pool, const MemoryOptions& options,
                                                     uint64_t blocks_ahead) const = 0;

 protected:
  ~Method() = default;
};

}  // namespace penstock::partition_internal
