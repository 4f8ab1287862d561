#pragma once

// Ends of the buckets: the room for each bucket's next items, in successive blocks of the keeper.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bits.h"
#include "files/sort/split/block_keeper.h"
#include "sorting/scatter/lines.h"

namespace penstock::external {

// Thread safety: one thread at a time. Invariant: room is allocated once, in order in each bucket.
class BucketEnds {
 public:
  BucketEnds(BlockKeeper& keeper, uint32_t buckets, uint64_t block_bytes)
      : keeper_(keeper), block_bytes_(block_bytes), ends_(buckets) {}

  // Number of new blocks that the bucket's next bytes need.
  uint64_t blocks_for(uint32_t bucket, uint64_t bytes) const {
    const uint64_t room = room_in(bucket);
    return bytes > room ? ceil_div(bytes - room, block_bytes_) : 0;
  }
  // Calls use(from, to) for each piece of the room for these bytes.
  template <class Use>
  void allocate(uint32_t bucket, uint64_t bytes, const Use& use) {
    scatter::Room& end = ends_[bucket];
    while (bytes > 0) {
      if (end.next == end.limit) {
        end.next = keeper_.next_block(bucket);
        end.limit = end.next + block_bytes_;
      }
      const uint64_t here = std::min(bytes, room_in(bucket));
      use(end.next, end.next + here);
      end.next += here;
      bytes -= here;
    }
  }
  // Closes all buckets in the keeper, with the bytes in their last blocks.
  void close() {
    for (uint32_t bucket = 0; bucket < ends_.size(); ++bucket)
      if (keeper_.has_block(bucket)) keeper_.close(bucket, block_bytes_ - room_in(bucket));
  }

 private:
  uint64_t room_in(uint32_t bucket) const {
    return static_cast<uint64_t>(ends_[bucket].limit - ends_[bucket].next);
  }

  BlockKeeper& keeper_;
  const uint64_t block_bytes_;
  std::vector<scatter::Room> ends_;
};

}  // namespace penstock::external
