#pragma once

// The first phase of a sort of records or lines: every item goes to the bucket of its key range, in
// the order of the input, and from there to temporaries.

#include "external/bucket_sorter.h"
#include "external/sample.h"
#include "external/spill.h"
#include "external/splitters.h"

namespace penstock::external {

// In the order of the output; empty ones are left out. Each keeps its part of the spills.
struct Distribution {
  std::vector<Bucket> buckets;
  SpillSet spills;
};

Result<Distribution> distribute(Context& context, const std::vector<Piece>& pieces, Sample sample,
                                const DistributionPlan& plan, const SpillPlace& place);

}  // namespace penstock::external
