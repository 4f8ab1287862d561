#pragma once

// The seam between a capture and its backends. Each runs the program (or attaches), records until
// all is over, and gives the program's exit code.

#include "penstock/error.h"
#include "trace/capture.h"
#include "trace/recorder.h"

namespace penstock::trace {

Result<int> capture_by_ptrace(const CaptureOptions& options, Recorder& recorder);

}  // namespace penstock::trace
