#pragma once

// The page of a sort, `penstock sort --report`, and the names of all pages. cli/no_trace.cc stands in
// for it in a build without report pages.

#include <string>

#include "penstock/base.h"

namespace penstock::cli {

// Returns whether this build has report pages.
bool has_pages();

// Fails with `unsupported` if this build has no report pages, and with `invalid_argument` if a page
// of this name would take the place of another file: its name ends otherwise than in .html or .htm,
// or it exists and does not begin as a page.
Status check_page(const std::string& path);

// Returns the HTML page of a sort's statistics (to_json()). The page calls the sort `name`, and has
// the command line and the time now.
Result<std::string> sort_page(const std::string& json, const std::string& name);

}  // namespace penstock::cli
