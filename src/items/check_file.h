#pragma once

// Checks a file with direct I/O: each thread reads one contiguous part of it, with several reads in
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

// A file that is no whole number of items is an error (code corrupt). REQUIRES: it has offsets.
Result<CheckResult> check_file(const io::File& file, const CheckFileOptions& options);

}  // namespace penstock::items
