#pragma once

// The first K items of the order, of an input of any size, in one read.

#include <vector>

#include "files/run/input.h"
#include "files/run/sample.h"
#include "files/sort/bucket.h"
#include "files/sort/context.h"

namespace penstock::external {

// Whether the first `count` items have room, where items have `item_bytes` on average.
bool top_fits(const SortOptions& options, uint64_t memory_bytes, double item_bytes, uint64_t count);

// The first `count` items of the pieces, as a stable sort would put them (with `unique`: the first
// one of each of the first `count` keys), to `target`. Reads all pieces, or as far as nothing can
// be among them any more.
//
// Errors: out_of_memory before anything is written, where items are longer than was expected.
Result<Stored> sort_top(Context& context, const std::vector<files::Piece>& pieces,
                        uint64_t memory_bytes, uint64_t count, const Target& target);

// For more items than memory holds. A key that about this share of the items does not come after;
// keys are encoded numbers, or texts.
struct TopLimit {
  uint64_t number = 0;
  std::string text;
};
TopLimit limit_of_share(const SortOptions& options, const files::Sample& sample, double share);

// The items that do not come after `limit`, in the order of the input, to `file` from its start.
Result<Stored> keep_below(Context& context, const std::vector<files::Piece>& pieces,
                          uint64_t memory_bytes, const TopLimit& limit, const io::File& file);

// The bytes of the first `count` of the `items` items that a file holds from `offset` on.
Result<uint64_t> bytes_of_first(const SortOptions& options, const io::File& file, uint64_t offset,
                                const Stored& stored, uint64_t count);

}  // namespace penstock::external
