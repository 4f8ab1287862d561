#pragma once

// The page of a sort: `penstock sort --report`. cli/no_trace.cc stands in for it in a build without
// report pages.

#include <string>

#include "penstock/base.h"

namespace penstock::cli {

// Fails with `unsupported` if this build has no report pages.
Status check_pages_built();

// Returns the HTML page of a sort's statistics (to_json()). The page calls the sort `name`.
Result<std::string> sort_page(const std::string& json, const std::string& name);

}  // namespace penstock::cli
