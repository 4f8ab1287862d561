#pragma once

#include <span>

#include "partition/bucket_memory.h"

namespace penstock::partition_internal {

// What `chain` is followed by, beginning with a block of its own.
void append(Chain& chain, Chain more, size_t block_bytes);

// Closes the holes of a bucket, so that its items fill its first blocks from its begin on, and takes those that are
// left over out of the chain, into `unused`. Returns the bytes copied. All blocks are at home.
//
// In order (stable), everything behind a hole moves up; otherwise a hole is filled from the end,
// and no more is copied than the holes are long.
uint64_t close_holes(pool::Pool& pool, Chain& chain, bool stable,
                     std::vector<pool::BlockId>& unused);

}  // namespace penstock::partition_internal
