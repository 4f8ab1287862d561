#pragma once

// Short measurement of a disk's current sequential speeds, with the device that `penstock disk`
// uses. It does not measure the switch delay.

#include <cstdint>
#include <string>

#include "penstock/base.h"

namespace penstock::external {

struct DiskSpeed {
  double write_bytes_per_s = 0;
  double read_bytes_per_s = 0;
};

struct DiskProbe {
  uint64_t bytes = 64 * MiB;
  size_t request_bytes = 2 * MiB;
  unsigned depth = 8;  // requests in flight; memory: depth * request_bytes
};

// Writes a temporary file in `directory` from start to end and reads it back.
Result<DiskSpeed> probe_disk(const std::string& directory, const DiskProbe& probe);

}  // namespace penstock::external
