#pragma once

// What the system counts of the memory of some processes, and limits: a memory cgroup, of either version of
// the interface.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace penstock::os {

// Thread safety: a move-only value. The folder is removed with it; processes in it must have ended.
class MemoryGroup {
 public:
  // Nothing where the system has none, or does not let us (mostly: who is not root). Without a limit: only
  // where the system tells the peak.
  static std::optional<MemoryGroup> make(std::optional<uint64_t> bytes_max = {});
  MemoryGroup(MemoryGroup&& other) noexcept
      : folder_(std::exchange(other.folder_, {})), peak_(std::move(other.peak_)) {}
  MemoryGroup& operator=(MemoryGroup&&) = delete;
  ~MemoryGroup();

  // A process that writes 0 to this file is in the group.
  std::string processes_file() const { return folder_ / "cgroup.procs"; }
  // Page cache included; 0 where the system does not tell.
  uint64_t peak_bytes() const;

 private:
  MemoryGroup(std::filesystem::path folder, std::filesystem::path peak)
      : folder_(std::move(folder)), peak_(std::move(peak)) {}

  std::filesystem::path folder_;
  std::filesystem::path peak_;
};

}  // namespace penstock::os
