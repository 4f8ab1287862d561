#pragma once

// Where on its disk a file lies.

#include <cstdint>
#include <vector>

#include "io/file.h"
#include "penstock/base.h"

namespace penstock::io {

// A stretch of a file that lies in one piece on the disk.
struct Extent {
  uint64_t offset;  // in the file
  uint64_t place;   // on the file system's device, in bytes
  uint64_t bytes;
};

// The extents of a file in the order of its bytes, neighbours on the disk put together; holes are
// left out. What the system knows is asked for after it has found places for all data (FIEMAP with
// sync). Fails with `unsupported` where the file system does not tell: some keep files in memory,
// compress them, or are a network away.
Result<std::vector<Extent>> extents_of(const File& file);

}  // namespace penstock::io
