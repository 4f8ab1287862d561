#pragma once

// The table that tells the programs in the kernel what to read at each system call.

#include "trace/capture/bpf/records.h"

namespace penstock::trace {

// Fills in the shapes of all watched calls, and the pseudo file systems. `rings_are_seen`: each
// request of an io_uring has a record, so that io_uring_enter() needs none.
void fill_settings(kernel::Settings& settings, bool rings_are_seen);

}  // namespace penstock::trace
