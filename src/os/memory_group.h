#pragma once

// A memory cgroup, of either version, which counts and limits the memory of some processes.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

namespace penstock::os {

// A group. Thread safety: a move-only value. The destructor removes the folder; processes in it
// must have ended.
class MemoryGroup {
 public:
  // Returns nullopt if the system has no such cgroups, or does not permit it (mostly: without
  // root). Without a limit it also needs a system that tells the peak.
  static std::optional<MemoryGroup> make(std::optional<uint64_t> bytes_max = {});
  MemoryGroup(MemoryGroup&& other) noexcept
      : folder_(std::exchange(other.folder_, {})), peak_(std::move(other.peak_)) {}
  MemoryGroup& operator=(MemoryGroup&&) = delete;
  ~MemoryGroup();

  // Returns a file: a process that writes 0 to it joins the group.
  std::string processes_file() const { return folder_ / "cgroup.procs"; }
  // Returns the peak, including page cache; 0 if the system does not tell.
  uint64_t peak_bytes() const;

 private:
  MemoryGroup(std::filesystem::path folder, std::filesystem::path peak)
      : folder_(std::move(folder)), peak_(std::move(peak)) {}

  std::filesystem::path folder_;
  std::filesystem::path peak_;
};

}  // namespace penstock::os
