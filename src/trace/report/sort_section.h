#pragma once

#include <cstddef>
#include <span>

#include "trace/report/page_writer.h"
#include "trace/report/sort_run.h"

namespace penstock::report {

// Adds the sections of sorts to a page, in `room_bytes` and one line more. `alone`: the page has a
// single sort, which its title names.
void add_sorts(Writer& page, std::span<const SortRun> sorts, bool alone, size_t room_bytes);

}  // namespace penstock::report
