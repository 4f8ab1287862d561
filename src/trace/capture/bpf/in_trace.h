#pragma once

// Conversion of the kernel programs' records (records.h) to members of a trace.

#include <cstddef>
#include <cstdint>
#include <string>

#include "trace/capture/bpf/records.h"
#include "trace/capture/decoded_call.h"
#include "trace/format/format.h"

namespace penstock::trace {

// Returns the path of names that are in the kernel's order, from the last to the first.
std::string path_of(const char* names, size_t bytes);
FileRecord record_of(const kernel::FileRecord& from);

// Decodes a request of an io_uring.
DecodedCall decoded_from(const kernel::SubmitRecord& submitted);

}  // namespace penstock::trace
