#pragma once

// A check of a file with direct I/O: each thread reads one contiguous part with several reads in
// flight, and the parts are joined.

#include <string>

#include "io/file.h"
#include "items/checker.h"
#include "penstock/base.h"

namespace penstock::items {

struct CheckFileOptions {
  CheckOptions check;
  unsigned threads = 2;
};

// Errors: corrupt, if the file is no whole number of items. REQUIRES: the file has offsets.
Result<CheckResult> check_file(const io::File& file, const CheckFileOptions& options);

}  // namespace penstock::items
