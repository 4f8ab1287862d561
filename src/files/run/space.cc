#include "files/run/space.h"

#include <algorithm>
#include <map>
#include <string>

#include "io/file.h"
#include "io/temporaries.h"
#include "penstock/base.h"

namespace penstock::files {
namespace {

// Needs are rounded up and free space down, so that a message never shows two equal numbers.
std::string mebibytes(uint64_t bytes, bool up) {
  const uint64_t tenths = (bytes * 10 + (up ? MiB - 1 : 0)) / MiB;
  const std::string part = tenths < 1000 ? "." + std::to_string(tenths % 10) : "";
  return std::to_string(tenths < 1000 || !up ? tenths / 10 : (tenths + 9) / 10) + part + " MiB";
}

}  // namespace

// Temporaries shrink while the output grows, so on one file system both together take little more
// than the data once: one of their parts is being read, and one is not released yet
// (spill_parts_max).
Status check_space(const SpaceNeeded& needed) {
  struct Need {
    uint64_t temp_bytes = 0;
    uint64_t output_bytes = 0;
    uint64_t free_bytes = 0;
    std::string directory;
  };
  std::map<uint64_t, Need> needs;  // by device
  auto need_at = [&](const std::string& directory) -> Result<Need*> {
    auto space = io::space_of(directory);
    if (!space) return std::unexpected(space.error());
    Need& need = needs[space->device];
    need.free_bytes = space->free_bytes;
    need.directory = directory;
    return &need;
  };
  if (needed.output_bytes > 0 && io::names_a_file(needed.output)) {
    auto need = need_at(io::directory_of(needed.output));
    if (!need) return std::unexpected(need.error());
    (*need)->output_bytes += needed.output_bytes;
  }
  if (needed.temp_bytes > 0) {
    if (auto status = io::check_temporaries_in_memory(needed.temp_directories, needed.temp_bytes,
                                                      needed.memory_bytes);
        !status)
      return status;
    for (const std::string& directory : needed.temp_directories) {
      auto need = need_at(directory);
      if (!need) return std::unexpected(need.error());
      const uint64_t each = needed.temp_bytes / needed.temp_directories.size();
      (*need)->temp_bytes += each;
    }
  }
  for (const auto& [device, need] : needs) {
    const uint64_t bytes =
        std::max(need.temp_bytes, need.output_bytes) + 2 * need.temp_bytes / spill_parts_max;
    if (bytes > need.free_bytes) {
      return failure(ErrorCode::out_of_space,
                     "hold " + mebibytes(bytes, true) + " of output or temporaries: " +
                         mebibytes(need.free_bytes, false) + " are free",
                     need.directory, "-T with a directory on a larger disk, or -o on one");
    }
  }
  return {};
}

}  // namespace penstock::files
