#pragma once

// What the interrupted code was doing when it faulted, read from the signal frame.

namespace penstock::os {

enum class FaultAccess { read, write, execute };

// `context` is the ucontext_t of a SIGSEGV or SIGBUS handler. Where the processor does not say, a
// read is assumed: a stream that serves a read and finds that it was a write faults once more.
FaultAccess fault_access(const void* context) noexcept;

}  // namespace penstock::os
