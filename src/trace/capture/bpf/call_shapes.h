#pragma once

// What the programs in the kernel (bpf/) look at for each system call.

#include "trace/capture/bpf/records.h"

namespace penstock::trace {

// The shapes of all watched calls, and the file systems that are none. `rings_are_seen`: requests
// of io_urings are told one by one, and io_uring_enter() needs no record.
void fill_settings(kernel::Settings& settings, bool rings_are_seen);

}  // namespace penstock::trace
