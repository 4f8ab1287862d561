#pragma once

#include <cstdint>
#include <string>

#include "penstock/error.h"

namespace penstock::bench {

struct DiskSpeed {
  double write_bytes_per_s = 0;
  double read_bytes_per_s = 0;
};

// Writes a temporary file in `directory` from one end to the other and reads it back, 2 MiB a
// request, eight in flight, past the page cache: what the disk itself can do.
Result<DiskSpeed> measure_disk(const std::string& directory, uint64_t bytes);

}  // namespace penstock::bench
