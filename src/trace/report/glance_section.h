#pragma once

#include <span>

#include "trace/report/page_writer.h"
#include "trace/report/summary.h"

namespace penstock::report {

// Adds the figures of a trace as tiles, or those of several traces side by side in a table.
void add_glance(Writer& page, std::span<const TraceSummary> traces);

}  // namespace penstock::report
