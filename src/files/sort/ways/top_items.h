#pragma once

// First K items of an input of any size, in one read.

#include <vector>

#include "files/run/input.h"
#include "files/run/sample.h"
#include "files/sort/bucket.h"
#include "files/sort/context.h"

namespace penstock::external {

// Whether memory holds the first `count` items, if items have `item_bytes` on average.
bool top_fits(const SortOptions& options, uint64_t memory_bytes, double item_bytes, uint64_t count);

// Writes the first `count` items of the pieces to `target`, in the order of a stable sort (with
// `unique`: the first item of each of the first `count` keys). Reads all pieces, or until no
// further item can be among the first.
//
// Errors: out_of_memory before anything is written, if items are longer than expected.
Result<Stored> sort_top(Context& context, const std::vector<files::Piece>& pieces,
                        uint64_t memory_bytes, uint64_t count, const Target& target);

// Upper bound on the first items if they are more than memory holds: a key that about a given share
// of the items does not exceed. Keys are encoded numbers, or texts.
struct TopLimit {
  uint64_t number = 0;
  std::string text;
};
TopLimit limit_of_share(const SortOptions& options, const files::Sample& sample, double share);

// Writes the items up to `limit`, in the order of the input, to the start of `file`.
Result<Stored> keep_below(Context& context, const std::vector<files::Piece>& pieces,
                          uint64_t memory_bytes, const TopLimit& limit, const io::File& file);

// Bytes of the first `count` items in a file that holds `stored` from `offset` on.
Result<uint64_t> bytes_of_first(const SortOptions& options, const io::File& file, uint64_t offset,
                                const Stored& stored, uint64_t count);

}  // namespace penstock::external
