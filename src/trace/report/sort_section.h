#pragma once

#include <cstddef>
#include <span>

#include "trace/report/page_writer.h"
#include "trace/report/sort_run.h"

namespace penstock::report {

// What a page has of sorts, in `room_bytes` and a line more. `alone`: the page's title names the
// only one already.
void add_sorts(Writer& page, std::span<const SortRun> sorts, bool alone, size_t room_bytes);

}  // namespace penstock::report
