#pragma once

// Checks a file with direct I/O: each thread reads one contiguous part of it, with several reads in
// flight, and the parts are joined. A pipe has one part.

#include <string>

#include "penstock/error.h"
#include "record/checker.h"

namespace penstock::record {

struct CheckFileOptions {
  CheckOptions check;
  unsigned threads = 2;
};

// "-" is stdin. A file that is no whole number of items is an error (code corrupt).
Result<CheckResult> check_file(const std::string& path, const CheckFileOptions& options);

}  // namespace penstock::record
