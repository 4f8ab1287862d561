#pragma once

#include <vector>

#include "external/context.h"
#include "external/input.h"

namespace penstock::external {

// The maximal sorted stretches of files, if there are at most `stretches_max`; otherwise nothing.
// Reads the files from one end to the other, or as far as there are too many.
Result<std::vector<Piece>> find_stretches(Context& context, const std::vector<Piece>& pieces,
                                          uint64_t memory_bytes, uint32_t stretches_max);

}  // namespace penstock::external
