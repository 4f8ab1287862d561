#pragma once

#include "trace/report/page_writer.h"
#include "trace/report/sort_run.h"

namespace penstock::report {

// Adds the time line of a sort: phases end to end, measured and predicted; and below them, on the
// same scale, how much of the memory each stage of the buckets held. Nothing without phases.
void add_timeline(Writer& page, const SortRun& sort, const external::Occupancy& occupancy);

}  // namespace penstock::report
