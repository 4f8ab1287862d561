#pragma once

// The seam between a capture and its backends. A backend runs the program (or attaches to it),
// reports to the recorder when it runs, records until all processes have ended, and returns the
// program's exit code.

#include "penstock/base.h"
#include "penstock/trace.h"
#include "trace/capture/bpf/kernel_watch.h"
#include "trace/capture/recorder.h"
#include "trace/capture/tracee.h"

namespace penstock::trace {

// Error::attempted if the program to trace does not exist or cannot be run.
inline constexpr char run_program[] = "run this program";

Result<int> capture_by_ptrace(const CaptureOptions& options, Recorder& recorder);
// Errors before the program runs leave the recorder untouched. `attached` is the process to attach
// to, opened before the watch began, or nullptr.
Result<int> capture_by_bpf(const CaptureOptions& options, KernelWatch& watch,
                           WaitedProcess* attached, Recorder& recorder);

}  // namespace penstock::trace
