#pragma once

#include <vector>

#include "external/bucket.h"
#include "external/context.h"
#include "files/input.h"

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

// How many sorted stretches merge_stretches() takes at once; and how long their items may be, where
// they are so many.
uint32_t stretches_max(const record::Format& format, uint64_t memory_bytes);
uint64_t stretch_item_bytes_max(const record::Format& format, size_t stretches,
                                uint64_t memory_bytes);
// Sorted stretches of files, no more than stretches_max(), in one pass. Stable. REQUIRES: no item
// is longer than stretch_item_bytes_max().
Result<Stored> merge_stretches(Context& context, const std::vector<Piece>& stretches,
                               uint64_t memory_bytes, const Target& target);

}  // namespace penstock::external
