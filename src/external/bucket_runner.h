#pragma once

// The second phase: buckets are sorted side by side and written in their places.

#include <span>

#include "external/bucket_sorter.h"
#include "external/spill.h"

namespace penstock::external {

// Sorts `buckets`, all of which fit `plan`, with `sorters` threads, to `target` and on. Extents
// that were read are given back to `spill`. Thread safety: runs its own threads.
Result<Stored> run_buckets(Context& context, std::span<const Bucket> buckets,
                           const SorterPlan& plan, unsigned sorters, Spill& spill,
                           const Target& target);

}  // namespace penstock::external
