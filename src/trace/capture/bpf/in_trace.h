#pragma once

// What the records of the kernel's programs (records.h) are in a trace.

#include <cstddef>
#include <cstdint>
#include <string>

#include "trace/capture/asked_call.h"
#include "trace/capture/bpf/records.h"
#include "trace/format/format.h"

namespace penstock::trace {

// From the last name to the first, as the kernel has them.
std::string path_of(const char* names, size_t bytes);
FileRecord record_of(const kernel::FileRecord& told);

// Says what a request of an io_uring asks for.
AskedCall asked_of(const kernel::SubmitRecord& submitted);

}  // namespace penstock::trace
