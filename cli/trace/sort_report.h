#pragma once

#include <string>

#include "penstock/base.h"
#include "trace/report/page.h"

namespace penstock::cli {

// Reads the contents of a report page from the JSON of `penstock sort --stats` (to_json()). Missing
// fields are shown as unknown. `name` is the name of the sort on the page: the file's path. Errors:
// corrupt (no JSON, not an object, or of another version).
//
// "staircases" and "occupancy" are not trusted: parts that cannot be drawn are left out.
Result<report::SortRun> sort_run_of(const std::string& json, const std::string& name);

}  // namespace penstock::cli
