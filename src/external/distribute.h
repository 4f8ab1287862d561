#pragma once

// The first phase: every item goes to the bucket of its key range, in the order of the input, and
// from there to temporaries.

#include "external/bucket_sorter.h"
#include "external/sample.h"
#include "external/spill.h"
#include "external/splitters.h"

namespace penstock::external {

// The buckets in the order of the output. Empty ones are left out.
Result<std::vector<Bucket>> distribute(Context& context, const std::vector<Piece>& pieces,
                                       Sample sample, const DistributionPlan& plan, Spill& spill);

}  // namespace penstock::external
