#pragma once

// Converts public options to internal ones, or returns the error in them.

#include "files/sort/external_sort.h"
#include "penstock/files.h"

namespace penstock::api {

Result<external::SortOptions> sort_options(const FilesOptions& files,
                                           const SortFilesOptions& options);

}  // namespace penstock::api
