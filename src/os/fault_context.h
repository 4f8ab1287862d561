#pragma once

// The kind of access that faulted, read from the signal frame.

namespace penstock::os {

enum class FaultAccess { read, write, execute };

// Returns the access, given the ucontext_t of a SIGSEGV or SIGBUS handler. If the processor does
// not tell, a read is assumed: a stream that serves a read which was a write gets one more fault.
FaultAccess fault_access(const void* context) noexcept;

}  // namespace penstock::os
