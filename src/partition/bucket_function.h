#pragma once

#include <string>

#include "penstock/base.h"
#include "penstock/partition.h"
#include "scatter/bucket_map.h"

namespace penstock::partition_internal {

// What users name (bits, range, hash, splitters), made ready for the kernels. `key_bits`: of the
// type. Errors: invalid_argument.
Result<scatter::BucketMap> make_bucket_map(const PartitionBy& by, unsigned key_bits,
                                           const std::string& name);

}  // namespace penstock::partition_internal
