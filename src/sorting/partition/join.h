#pragma once

#include "sorting/partition/bucket_memory.h"

namespace penstock::partition_internal {

// Appends `more` to `chain`, beginning with a new block. After std::bad_alloc `chain` is as it was.
void append(Chain& chain, const Chain& more, size_t block_bytes);

// Closes the holes of a bucket, so that its items fill its first blocks from its begin on. Returns
// the bytes copied. All blocks are at home, and stay in the chain. Allocates nothing.
//
// If stable, all items behind a hole move up; otherwise a hole is filled from the end, and no more
// is copied than the holes are long.
uint64_t close_holes(pool::Pool& pool, Chain& chain, bool stable);
// Returns the blocks behind the chain's extent to the pool.
void give_unused(pool::Pool& pool, Chain& chain);

}  // namespace penstock::partition_internal
