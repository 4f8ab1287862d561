#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base.h"

namespace penstock::files {

// The most parts of a file of temporaries; each is released when it has been read.
inline constexpr uint32_t spill_parts_max = 24;

// The space that a run needs on the disks, and in memory if temporaries lie there.
struct SpaceNeeded {
  std::string output;  // a path; needs no space unless it names a regular file
  uint64_t output_bytes = 0;
  std::vector<std::string> temp_directories;
  uint64_t temp_bytes = 0;    // divided equally between the directories
  uint64_t memory_bytes = 0;  // the budget; temporaries in memory need theirs beside it
};
// Fails if there is less; called before anything is written.
Status check_space(const SpaceNeeded& needed);

}  // namespace penstock::files
