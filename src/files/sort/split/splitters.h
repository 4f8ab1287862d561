#pragma once

// Keys at which a distribution cuts.
//
// A key that takes more than a bucket's share of the sample gets a bucket of its own: it and its
// successor are both cuts. The bucket between them holds one key, is never sorted, and may be of
// any size.

#include <cstdint>
#include <string>
#include <vector>

#include "items/cuts.h"

namespace penstock::external {

// Returns the least keys of all buckets but the first, at most `buckets_max` buckets. `sample` need
// not be sorted.
std::vector<uint64_t> number_bounds(std::vector<uint64_t> sample, uint32_t buckets_max);

// Returns the cuts between string keys, in ascending order, for at most `buckets_max` buckets.
// `sample` need not be sorted.
items::Cuts text_cuts(const items::Format& format, std::vector<std::string> sample,
                      uint32_t buckets_max);

}  // namespace penstock::external
