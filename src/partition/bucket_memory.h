#pragma once

// Where the items of the buckets go: what the methods differ in. The loop over the items
// (partition.cc) and what is done afterwards (join.cc) are the same for all.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "partition/write_combine.h"
#include "penstock/partition.h"
#include "pool/pool.h"
#include "stream/block_reserve.h"

namespace penstock::partition_internal {

// A bucket as it was written: blocks in order, all at home, and what in them holds no items.
struct Chain {
  struct Hole {
    uint64_t from, to;  // bytes from the beginning of the first block
  };
  std::vector<pool::BlockId> blocks;
  uint64_t extent_bytes = 0;
  std::vector<Hole> holes;  // in order, apart, within the extent
};

struct MemoryOptions {
  PartitionMethod method;
  RingWrap wrap;
  uint32_t buckets;
  unsigned workers;
  uint64_t bytes_max;  // of all buckets together
  std::string name;
  stream::BlockReserve* reserve = nullptr;  // for methods that take blocks in a handler of faults
};

// Thread safety: what takes a worker is called by that worker, until leave(); everything else by
// one thread when all have left, take() of different buckets at the same time.
class BucketMemory {
 public:
  static Result<std::unique_ptr<BucketMemory>> open(pool::Pool& pool, const MemoryOptions& options);
  virtual ~BucketMemory() = default;

  virtual LineBytes line_bytes() const { return LineBytes::small; }
  virtual Destination destination(unsigned worker) = 0;
  // The address that a worker's bucket begins at; nullptr where the destination says that.
  virtual std::byte* start(unsigned worker, uint32_t bucket) {
    (void)worker, (void)bucket;
    return nullptr;
  }
  virtual void leave(unsigned worker) { (void)worker; }
  virtual bool failed() const { return false; }

  // The last bytes of a worker's bucket, less than a line; `at` is behind the others.
  virtual void finish(unsigned worker, uint32_t bucket, std::byte* at,
                      std::span<const std::byte> rest) = 0;

  // The bucket, if it lies in a row already; it stays until take() or the end of this object.
  virtual std::span<std::byte> row(uint32_t bucket) {
    (void)bucket;
    return {};
  }
  virtual bool rows() const { return false; }
  // The rows grow no more.
  virtual void stop_growing() {}
  virtual uint64_t row_blocks(uint32_t bucket) const {
    (void)bucket;
    return 0;
  }
  // The blocks are the caller's.
  virtual Chain take(uint32_t bucket) = 0;
};

// The most blocks that a method may have in use for so many bytes.
uint64_t blocks_needed(const MemoryOptions& options, size_t block_bytes);
// The most mappings that a method may need for so many blocks before they are joined, where each
// block that is away from home is one, and each gap between two.
uint64_t mappings_needed(const MemoryOptions& options, uint64_t blocks);

}  // namespace penstock::partition_internal
