#pragma once

// Merges sorted pieces into one output: by one loser tree, or by several levels of them when the
// pieces are more than the memory has buffers for. Stable: equal keys come in the order of the
// pieces. Checks order while it reads.

#include <string>

#include "external/bucket_sorter.h"
#include "external/spill.h"

namespace penstock::external {

// How many pieces can be merged at once within so much memory.
uint32_t fan_in_max(uint64_t memory_bytes);

// `names`: of the pieces, for messages. `*levels` grows by the number of passes over
// the data. REQUIRES: `spill`, when there are more than fan_in_max pieces.
Result<Stored> merge(Context& context, std::vector<Piece> pieces, std::vector<std::string> names,
                     uint64_t memory_bytes, Spill* spill, const Target& target, uint32_t* levels);

// The maximal sorted stretches of files, if there are at most `runs_max`; otherwise nothing.
Result<std::vector<Piece>> find_runs(Context& context, const std::vector<Piece>& pieces,
                                     uint64_t memory_bytes, uint32_t runs_max);

}  // namespace penstock::external
