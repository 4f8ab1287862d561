#pragma once

// The check of one input, whatever it is: a file in parts (record/check_file.h), and what comes in
// order (source/in_order.h) from front to back.

#include <atomic>
#include <string>

#include "penstock/source.h"
#include "record/check_file.h"

namespace penstock::files {

// "-" is stdin. What is no whole number of items is an error (code corrupt). `cancel` ends the wait
// for what comes in order: ErrorCode::cancelled.
Result<record::CheckResult> check_input(const std::string& path,
                                        const record::CheckFileOptions& options,
                                        const SourceOptions& source,
                                        const std::atomic<bool>* cancel = nullptr);

}  // namespace penstock::files
