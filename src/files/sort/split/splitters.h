#pragma once

// The keys at which a distribution cuts.
//
// A key that takes more than a bucket's share of the sample gets a bucket of its own: it and its
// successor are both cuts, and the bucket between them holds one key: it is never sorted and may be of any size.

#include <cstdint>
#include <string>
#include <vector>

#include "items/cuts.h"

namespace penstock::external {

// Finds the least keys of all buckets but the first, for keys that are numbers. `sample` need not be sorted. At most
// `buckets_max` buckets.
std::vector<uint64_t> number_bounds(std::vector<uint64_t> sample, uint32_t buckets_max);

// Cuts keys that are strings of bytes, in ascending order. `sample` need not be sorted. At most `buckets_max` buckets.
items::Cuts text_cuts(const items::Format& format, std::vector<std::string> sample,
                      uint32_t buckets_max);

}  // namespace penstock::external
