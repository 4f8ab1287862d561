#pragma once

#include "trace/report/page_writer.h"
#include "trace/report/sort_run.h"

namespace penstock::trace::report {

// What a page has of one sort. `alone`: the page's title names it already.
void add_sort(Writer& page, const SortRun& sort, bool alone);

}  // namespace penstock::trace::report
