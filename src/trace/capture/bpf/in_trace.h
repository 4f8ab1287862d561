#pragma once

// What the records of the kernel's programs (records.h) are in a trace.

#include <cstddef>
#include <cstdint>
#include <string>

#include "trace/capture/bpf/records.h"
#include "trace/format/format.h"

namespace penstock::trace {

// From the last name to the first, as the kernel has them.
std::string path_of(const char* names, size_t bytes);
FileRecord record_of(const kernel::FileRecord& told);

// Of an io_uring's request.
bool is_read(uint8_t operation);
bool is_write(uint8_t operation);
// One that moves bytes, brings them to the disk or allocates; without its file, descriptor and times.
Event event_of_request(const kernel::SubmitRecord& submitted, uint64_t result);

}  // namespace penstock::trace
