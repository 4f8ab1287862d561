#pragma once

#include <string>

#include "penstock/error.h"
#include "trace/report/page.h"

namespace penstock::cli {

// What a page shows of a sort, from the JSON of `penstock sort --stats` (stats_json()). Fields that
// are not there are shown as not known. `name` is what to call it: the file's path. Errors: corrupt
// (no JSON, not an object, or of another version).
//
// Beside the fields of stats_json() it takes "staircases", where an engine recorded how full its
// buckets were: [{"title": "outputs of pass 1", "measured_bytes": [...], "predicted_bytes":
// [...]}], the fullest bucket first.
Result<trace::report::SortRun> sort_run_of(const std::string& json, const std::string& name);

}  // namespace penstock::cli
