#pragma once

#include <vector>

#include "files/run/input.h"
#include "files/sort/bucket.h"
#include "files/sort/context.h"

namespace penstock::external {

// Sorted stretches of files, one piece each, in the order of the files.
struct SortedStretches {
  std::vector<files::Piece> pieces;
  uint64_t item_bytes_max = 0;  // longest item, with the newline that a last line may lack
  // Account of all items, with all newlines.
  uint64_t items = 0;
  uint64_t bytes = 0;
  bool are_copied = false;  // everything is in order and copied to the target
};

// Finds the maximal sorted stretches of files. Returns none if there are more than `stretches_max`,
// or if an item is too long to be looked at. Reads the files from start to end, or until it is
// certain that it returns none.
//
// If the files are in order, one behind the other, a search and a merge would read all of it twice.
// With `copy_to`, a regular file, the search writes the items there as it reads them, up to the
// first one that is out of order, which makes the copy useless.
// first item that is out of order, nothing more, and what is there is of no use.
Result<SortedStretches> find_stretches(Context& context, const std::vector<files::Piece>& pieces,
                                       uint64_t memory_bytes, uint32_t stretches_max,
                                       const Target* copy_to);

// Bytes that such a copy reads, and writes, at once.
size_t copied_block_bytes(uint64_t memory_bytes);

// Number of sorted stretches that merge_stretches() takes at once; and the longest item that it
// takes with this number of stretches.
uint32_t stretches_max(const items::Format& format, uint64_t memory_bytes);
uint64_t stretch_item_bytes_max(const items::Format& format, size_t stretches,
                                uint64_t memory_bytes);
// Merges sorted stretches of files in one pass. Stable. REQUIRES: there are at most
// stretches_max(), and no item is longer than stretch_item_bytes_max().
Result<Stored> merge_stretches(Context& context, const std::vector<files::Piece>& stretches,
                               uint64_t memory_bytes, const Target& target);

}  // namespace penstock::external
