#pragma once

// The second phase: buckets are sorted side by side and written in their places.

#include <span>

#include "external/bucket_sorter.h"
#include "external/resume.h"
#include "external/spill.h"

namespace penstock::external {

// Sorts `buckets`, all of which fit `plan`, with `sorters` threads, to `target` and on. Each
// releases its part of `spills` when it has been read; with `resume`, when it is written down there
// that it is done. Thread safety: runs its own threads.
Result<Stored> run_buckets(Context& context, std::span<const Bucket> buckets,
                           const SorterPlan& plan, unsigned sorters, SpillSet& spills,
                           const Target& target, Resume* resume);

}  // namespace penstock::external
