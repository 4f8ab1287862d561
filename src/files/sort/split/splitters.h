#pragma once

// Keys at which a distribution cuts.
//
// A key that takes more than a bucket's share of the sample gets a bucket of its own: it and its
// successor are both cuts. The bucket between them is never sorted, and may be of any size.

#include <cstdint>
#include <string>
#include <vector>

#include "items/cuts.h"

namespace penstock::external {

// Returns the least keys of at most `buckets_max` buckets but the first. `sample`: in any order.
std::vector<uint64_t> number_bounds(std::vector<uint64_t> sample, uint32_t buckets_max);

// Returns the cuts between string keys for at most `buckets_max` buckets. `sample`: in any order.
items::Cuts text_cuts(const items::Format& format, std::vector<std::string> sample,
                      uint32_t buckets_max);

}  // namespace penstock::external
