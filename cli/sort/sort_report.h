#pragma once

#include <string>

#include "penstock/base.h"
#include "trace/report/page.h"

namespace penstock::cli {

// What a page shows of a sort, from the JSON of `penstock sort --stats` (to_json()). Fields that
// are not there are shown as not known. `name` is what to call it: the file's path. Errors: corrupt
// (no JSON, not an object, or of another version).
//
// "staircases" and "occupancy" are taken from whoever wrote them: what cannot be drawn is left out.
Result<report::SortRun> sort_run_of(const std::string& json, const std::string& name);

}  // namespace penstock::cli
