#pragma once

#include <string>

#include "penstock/error.h"

namespace penstock::bowtie {

// What a directory's disk does in sequence right now, direct, in large requests: a guess for
// predictions, not a profile.
struct DiskSpeed {
  double read_bytes_per_s;
  double write_bytes_per_s;
};
Result<DiskSpeed> probe_disk(const std::string& directory, uint64_t bytes);

}  // namespace penstock::bowtie
