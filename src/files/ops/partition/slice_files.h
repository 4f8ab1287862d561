#pragma once

// Writes the items of several inputs to one file, in slices that belong to parts (penstock/files.h
// says what for).

#include <string>
#include <vector>

#include "files/run/options.h"

namespace penstock::files {

using penstock::SliceFilesResult;

struct SliceOptions {
  FilesOptions files;
  bool descending = false;
  penstock::SliceFilesOptions slices;
};

// Errors: as penstock::slice_files().
Result<SliceFilesResult> slice_files(const SliceOptions& options);

}  // namespace penstock::files
