#pragma once

// The places of a file on its disk.

#include <cstdint>
#include <vector>

#include "io/file.h"
#include "penstock/base.h"

namespace penstock::io {

// A range of a file that is contiguous on the disk.
struct Extent {
  uint64_t offset;  // in the file
  uint64_t place;   // on the file system's device, in bytes
  uint64_t bytes;
};

// Returns the extents of a file in the order of its bytes, with neighbours on the disk joined,
// without holes. The system allocates all data first (FIEMAP with sync). Fails with `unsupported`
// if the file system does not tell: some keep files in memory, compress them, or are remote.
Result<std::vector<Extent>> extents_of(const File& file);

}  // namespace penstock::io
