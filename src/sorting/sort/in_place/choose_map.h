#pragma once

// Which buckets to divide keys into, by a sample of them.

#include <cstdint>
#include <span>
#include <vector>

#include "sorting/scatter/bucket_map.h"

namespace penstock::sorting {

// In place; takes as much memory again.
void sort_sample(std::vector<uint64_t>& sample);

// Equal shares of the range of keys; but buckets whose bounds the keys themselves give, where equal
// shares would leave more than a tenth of the items in buckets that are larger than `share_max` of
// all and hold more than one key.
// REQUIRES: `sample` is sorted and not empty.
scatter::BucketMap choose_map(std::span<const uint64_t> sample, uint32_t buckets, double share_max);

}  // namespace penstock::sorting
