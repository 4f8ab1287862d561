#include "io/temporaries.h"

#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "io/file.h"
#include "os/limits.h"
#include "os/memory.h"
#include "penstock/base.h"

namespace penstock::io {
namespace {

std::string usual_directory() {
  const char* from_environment = std::getenv("TMPDIR");
  return from_environment != nullptr && *from_environment != '\0' ? from_environment : "/tmp";
}

}  // namespace

bool lies_in_memory(const std::string& directory) {
  struct statfs system;
  return ::statfs(directory.c_str(), &system) == 0 &&
         (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC);
}

std::string default_temp_directory(const std::string& output) {
  std::string usual = usual_directory();
  if (!lies_in_memory(usual)) return usual;
  auto is_disk = [](const std::string& directory) {
    return ::access(directory.c_str(), W_OK | X_OK) == 0 && !lies_in_memory(directory);
  };
  std::vector<std::string> others = {"/var/tmp"};
  if (!output.empty() && output != "-") others.push_back(directory_of(output));
  const auto found = std::ranges::find_if(others, is_disk);
  return found != others.end() ? *found : usual;
}

std::vector<std::string> temp_directories_or_default(const std::vector<std::string>& directories,
                                                     const std::string& output) {
  return directories.empty() ? std::vector{default_temp_directory(output)} : directories;
}

std::string notice_of_temporaries(const std::vector<std::string>& wanted,
                                  const std::vector<std::string>& directories) {
  for (const std::string& directory : directories) {
    if (lies_in_memory(directory))
      return fmt::format("temporaries in {} use memory (tmpfs) beyond -S", directory);
  }
  if (!wanted.empty() || directories.front() == usual_directory()) return {};
  return fmt::format("temporaries go to {}: {} is memory (tmpfs)", directories.front(),
                     usual_directory());
}

uint64_t temporaries_in_memory(const std::vector<std::string>& directories, uint64_t temp_bytes) {
  const auto in_memory = static_cast<uint64_t>(std::ranges::count_if(directories, lies_in_memory));
  return in_memory == 0 ? 0 : temp_bytes / directories.size() * in_memory;
}

Status check_temporaries_in_memory(const std::vector<std::string>& directories, uint64_t temp_bytes,
                                   uint64_t budget_bytes) {
  const uint64_t bytes = temporaries_in_memory(directories, temp_bytes);
  if (bytes == 0) return {};
  // This process's present memory is part of its budget.
  const uint64_t there_bytes = os::machine_memory().usable_bytes + os::resident_memory().bytes;
  if (bytes <= there_bytes && budget_bytes <= there_bytes - bytes) return {};
  return failure(
      ErrorCode::out_of_memory,
      fmt::format(
          "hold {} MiB of temporaries in memory (tmpfs) besides -S {} MiB: {} MiB are available",
          bytes / MiB, budget_bytes / MiB, there_bytes / MiB),
      *std::ranges::find_if(directories, lies_in_memory), "-T with a directory on a disk");
}

}  // namespace penstock::io
