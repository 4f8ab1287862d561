#pragma once

// `sort -m`: merge_files() with the texts and figures of a sort.

#include "files/sort/external_sort.h"

namespace penstock::external {

Result<SortPlan> plan_merge_only(const SortOptions& options);
Result<SortStats> sort_merge_only(const SortOptions& options);

}  // namespace penstock::external
