#include "cli/memory_group.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <system_error>

namespace penstock::cli {
namespace {

namespace fs = std::filesystem;

bool write_number(const fs::path& file, uint64_t number) {
  std::ofstream out(file);
  out << number << std::flush;
  return out.good();
}

}  // namespace

std::optional<MemoryGroup> MemoryGroup::make(uint64_t bytes_max) {
  struct Version {
    const char* parent;
    const char* limit;
    const char* peak;
  };
  static constexpr std::array<Version, 2> versions = {
      Version{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"},
      Version{"/sys/fs/cgroup", "memory.max", "memory.peak"}};
  static int made = 0;
  for (const Version& version : versions) {
    const fs::path folder =
        fs::path(version.parent) / fmt::format("penstock-compare-{}-{}", ::getpid(), ++made);
    std::error_code failed;
    if (!fs::create_directory(folder, failed) || failed) continue;
    MemoryGroup group(folder, folder / version.peak);
    if (!fs::exists(folder / version.limit, failed)) continue;
    if (!write_number(folder / version.limit, bytes_max)) continue;
    // What is swapped out is no memory that was kept. Not every system counts it.
    (void)write_number(folder / "memory.swap.max", 0);
    return group;
  }
  return std::nullopt;
}

MemoryGroup::~MemoryGroup() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove(folder_, ignored);
}

uint64_t MemoryGroup::peak_bytes() const {
  uint64_t bytes = 0;
  std::ifstream(peak_) >> bytes;
  return bytes;
}

}  // namespace penstock::cli
