#pragma once

#include <vector>

#include "trace/report/axis_marks.h"
#include "trace/report/page_writer.h"
#include "trace/report/sort_run.h"

namespace penstock::report {

// Adds the marks below a picture.
void add_across(Writer& page, const std::vector<AxisMark>& marks);

// Adds the time line of a sort: phases end to end, measured and predicted; and below them, on the
// same scale, how much of the memory each stage of the buckets held. Nothing without phases.
void add_timeline(Writer& page, const SortRun& sort, const external::Occupancy& occupancy);

}  // namespace penstock::report
