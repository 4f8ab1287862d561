#pragma once

// The public options made internal ones, or what is wrong with them.

#include "files/sort/external_sort.h"
#include "penstock/files.h"

namespace penstock::api {

Result<external::SortOptions> sort_options(const FilesOptions& files,
                                           const SortFilesOptions& options);

}  // namespace penstock::api
