#pragma once

// The sort of records that moves each of them once, along the cycles of the permutation: for large
// ones, and for buckets that nothing else has made small.

#include <cstddef>

#include "penstock/base.h"
#include "sorting/sort/records/record_keys.h"

namespace penstock::sorting {

// Least size of a record that one thread sorts like this.
inline constexpr size_t cycle_record_bytes_min = 2 * KiB;

// Sorts records that share the first `pos` bytes of their keys. Takes 16 more bytes for each.
Status sort_by_cycles(std::byte* records, size_t count, const Keys& keys, size_t pos,
                      unsigned threads);

}  // namespace penstock::sorting
