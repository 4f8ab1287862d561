#pragma once

// The check of one input, whatever it is: a file in parts (record/check_file.h), and what comes in
// order (source/in_order.h) from front to back.

#include "files/options.h"
#include "record/check_file.h"

namespace penstock::files {

// The first input of `files`. What is no whole number of items is an error (code corrupt). `files.cancel` ends
// the wait for what comes in order: ErrorCode::cancelled.
Result<record::CheckResult> check_input(const penstock::FilesOptions& files,
                                        const record::CheckFileOptions& options);

}  // namespace penstock::files
