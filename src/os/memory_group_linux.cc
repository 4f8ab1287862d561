#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <system_error>

#include "os/memory_group.h"

namespace penstock::os {
namespace {

namespace fs = std::filesystem;

bool write_number(const fs::path& file, uint64_t number) {
  std::ofstream out(file);
  out << number << std::flush;
  return out.good();
}

// Makes a folder. An earlier process with our number that was killed may have left one of that
// name: it is empty and can be removed; if it cannot, the next name is as good.
std::optional<fs::path> make_folder(const fs::path& parent) {
  constexpr int tries = 8;
  static int made = 0;
  for (int i = 0; i < tries; ++i) {
    fs::path folder = parent / fmt::format("penstock-{}-{}", ::getpid(), ++made);
    std::error_code error;
    if (fs::create_directory(folder, error)) return folder;
    if (error) return std::nullopt;  // not permitted, or no such parent
    fs::remove(folder, error);
    if (fs::create_directory(folder, error)) return folder;
  }
  return std::nullopt;
}

}  // namespace

std::optional<MemoryGroup> MemoryGroup::make(std::optional<uint64_t> bytes_max) {
  struct Version {
    const char* parent;
    const char* limit;
    const char* peak;
  };
  static constexpr std::array<Version, 2> versions = {
      Version{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"},
      Version{"/sys/fs/cgroup", "memory.max", "memory.peak"}};
  for (const Version& version : versions) {
    const std::optional<fs::path> folder_made = make_folder(version.parent);
    if (!folder_made) continue;
    const fs::path& folder = *folder_made;
    std::error_code failed;
    MemoryGroup group(folder, folder / version.peak);
    if (!fs::exists(folder / (bytes_max ? version.limit : version.peak), failed)) continue;
    if (!bytes_max) return group;
    if (!write_number(folder / version.limit, *bytes_max)) continue;
    // Swapped memory would not count as kept. Not every system counts it.
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

}  // namespace penstock::os
