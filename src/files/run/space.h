#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base.h"

namespace penstock::files {

// Temporaries are given back by parts, of which a file of them has so many at most.
inline constexpr uint32_t spill_parts_max = 24;

// What a run needs of the disks, and of the memory where temporaries lie there, before it writes
// anything. Fails where there is less.
struct SpaceNeeded {
  std::string output;  // a path; what is no regular file, nor becomes one, needs nothing
  uint64_t output_bytes = 0;
  std::vector<std::string> temp_directories;
  uint64_t temp_bytes = 0;    // in equal parts
  uint64_t memory_bytes = 0;  // the budget, beside which temporaries in memory need theirs
};
Status check_space(const SpaceNeeded& needed);

}  // namespace penstock::files
