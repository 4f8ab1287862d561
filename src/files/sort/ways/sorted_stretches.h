#pragma once

#include <vector>

#include "files/run/input.h"
#include "files/sort/bucket.h"
#include "files/sort/context.h"

namespace penstock::external {

struct Stretches {
  std::vector<files::Piece> pieces;
  uint64_t item_bytes_max = 0;  // of the longest item, with the newline that a last line may lack
  // What was looked at, with all newlines.
  uint64_t items = 0;
  uint64_t bytes = 0;
  bool are_copied = false;  // all is in order, and at its target
};

// The maximal sorted stretches of files, if there are at most `stretches_max`, and no item is
// longer than it can look at; otherwise nothing. Reads the files from one end to the other, or as
// far as there is nothing to be found.
//
// Where the files are in order, one behind the other, a look and a merge would read all of it twice.
// With `copy_to`, a regular file, what is looked at is written there at the same time; after the
// first item that is out of order, nothing more, and what is there is of no use.
Result<Stretches> find_stretches(Context& context, const std::vector<files::Piece>& pieces,
                                 uint64_t memory_bytes, uint32_t stretches_max,
                                 const Target* copy_to);

// How much such a copy reads, and writes, at once.
size_t copied_block_bytes(uint64_t memory_bytes);

// How many sorted stretches merge_stretches() takes at once; and how long their items may be, where
// they are so many.
uint32_t stretches_max(const items::Format& format, uint64_t memory_bytes);
uint64_t stretch_item_bytes_max(const items::Format& format, size_t stretches,
                                uint64_t memory_bytes);
// Sorted stretches of files, no more than stretches_max(), in one pass. Stable. REQUIRES: no item
// is longer than stretch_item_bytes_max().
Result<Stored> merge_stretches(Context& context, const std::vector<files::Piece>& stretches,
                               uint64_t memory_bytes, const Target& target);

}  // namespace penstock::external
