#pragma once

// The event of a call that succeeded, as far as its arguments and its answer tell. What has to be
// found out elsewhere (which file, where a copy began, how large a file is now) the backends add.

#include <cstdint>

#include "trace/capture/call_table.h"
#include "trace/format/format.h"

namespace penstock::trace {

// REQUIRES: what was asked is of these: duplicate, set_flags, read, write, seek, copy, truncate,
// truncate_path, allocate, sync, rename, unlink, map. Times, process and thread are left open.
Event event_of(const AskedCall& asked, uint64_t result);

}  // namespace penstock::trace
