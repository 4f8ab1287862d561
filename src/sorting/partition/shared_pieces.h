#pragma once

#include "sorting/partition/bucket_memory.h"

namespace penstock::partition_internal {

// The library's method: see shared_pieces.cc.
const Method& shared_pieces();

}  // namespace penstock::partition_internal
