#pragma once

#include "files/run/options.h"

namespace penstock::files {

// Writes the items to parts in their order. REQUIRES: one limit of `split` is set, and is not 0.
Result<SplitFilesResult> split_files(const FilesOptions& options, const SplitFilesOptions& split);

}  // namespace penstock::files
