#pragma once

#include "penstock/trace.h"
#include "trace/report/page_writer.h"

namespace penstock::report {

// Adds the advice on a trace, and the table of its calls and their time, to a page; nothing without
// times.
void add_calls(Writer& page, const trace::Conversion& trace);

}  // namespace penstock::report
