#pragma once

// Sorts records of any fixed size by a key of bytes, in place. See record_sort.cc.

#include <cstddef>
#include <cstdint>

#include "penstock/base.h"
#include "penstock/sort.h"

namespace penstock::sorting {

// Bytes of memory that sort_records() takes beside the records, at most, but for buckets that two
// more distributions have not made small: 16 bytes a record of these.
uint64_t record_extra_bytes(size_t count, const RecordLayout& layout, const SortOptions& options);

}  // namespace penstock::sorting
