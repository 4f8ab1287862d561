#pragma once

// The choice of the buckets for keys, by a sample of them.

#include <cstdint>
#include <span>
#include <vector>

#include "sorting/scatter/bucket_map.h"

namespace penstock::sorting {

// Sorts in place; takes as much memory again.
void sort_sample(std::vector<uint64_t>& sample);

// Returns equal shares of the range of keys; or buckets bounded by the keys themselves, if equal
// shares would leave more than a tenth of the items in buckets that are larger than `share_max` of
// all and contain more than one key. REQUIRES: `sample` is sorted and not empty.
scatter::BucketMap choose_map(std::span<const uint64_t> sample, uint32_t buckets, double share_max);

}  // namespace penstock::sorting
