#pragma once

#include <vector>

#include "external/context.h"
#include "external/input.h"

namespace penstock::external {

struct Stretches {
  std::vector<Piece> pieces;
  uint64_t item_bytes_max = 0;  // of the longest item, with the newline that a last line may lack
};

// The maximal sorted stretches of files, if there are at most `stretches_max`, and no item is
// longer than it can look at; otherwise nothing. Reads the files from one end to the other, or as
// far as there is nothing to be found.
Result<Stretches> find_stretches(Context& context, const std::vector<Piece>& pieces,
                                 uint64_t memory_bytes, uint32_t stretches_max);

}  // namespace penstock::external
