#pragma once

// The open files of another process, from /proc.
//
// Nothing here may wait for a file system. A file system in user space is served by a process, which
// may be one that is stopped until we continue it: waiting for it would be a deadlock. So the type
// of a file system comes from the list of mounts, sizes are those that the kernel knows, and names
// are looked up in the kernel's cache alone.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>

#include "os/fd.h"
#include "trace/format/format.h"

namespace penstock::trace {

// The file of a descriptor.
struct OpenFile {
  FileRecord record;      // without its id
  uint64_t position = 0;  // set with Detail::and_position
  uint32_t flags = 0;     // flags of flag::, set with Detail::and_position
};

enum class Detail {
  identity,      // the file alone
  and_position,  // also its position, and the flags of its open
};

// The set of devices whose file systems are no storage (/proc, /sys and their like), from the mounts
// of a process. The mounts of our own namespace are cached until they change.
//
// Thread safety: none.
class PseudoDevices {
 public:
  PseudoDevices() = default;

  // Returns whether the set has a device. REQUIRES: the thread sees a mount of the device.
  bool contain(int32_t thread, uint64_t device);

 private:
  os::Fd own_mounts_;  // /proc/self/mountinfo, whose changes can be polled
  uint64_t own_space_ = 0;
  std::unordered_set<uint64_t> own_;
};

// Returns nullopt if the descriptor is not open any more, or access is denied.
std::optional<OpenFile> open_file_of(int32_t thread, int32_t descriptor, Detail detail,
                                     PseudoDevices& pseudo);
// Finds the file that a path leads to for the thread, and its own path. `directory` is a descriptor
// or AT_FDCWD. `follow`: a symbolic link at the end is followed. Returns nullopt if there is none;
// `in_cache` is set if the kernel's cache could answer without the file system. The cache has every
// name by which a file is open, and the names that recent calls have used.
std::optional<FileRecord> file_at(int32_t thread, int32_t directory, const std::string& path,
                                  bool follow, PseudoDevices& pseudo, bool& in_cache);
// Returns the name that a program gave as an absolute one: of a relative one, with the folder at which it
// begins, which `directory` is (or AT_FDCWD).
std::string absolute_name(int32_t thread, int32_t directory, const std::string& path);
// Resolves a path's links and dots in our namespace; nullopt if it is not in the kernel's cache.
std::optional<std::string> real_path(const std::string& path);
// Returns the current size; nullopt if the descriptor is not open any more, or access is denied.
std::optional<uint64_t> size_of(int32_t thread, int32_t descriptor);

// Converts the flags of open() to flags of flag::.
uint32_t open_flags(uint64_t system_flags);

// Returns the magic numbers of the file systems of PseudoDevices.
std::span<const uint64_t> pseudo_file_systems();

// Converts a device from the kernel's form (major << 20 | minor) to that of stat().
uint64_t device_number(uint32_t in_kernel);

// Returns the process of a thread; 0 if the thread has ended.
int32_t process_of(int32_t thread);
// Returns the program that a process runs.
std::string program_of(int32_t process);

// Returns whether both descriptors have one open file description, and so share their position.
// Returns nullopt if kcmp() is not available.
std::optional<bool> is_same_description(int32_t thread, int32_t descriptor, int32_t other_thread,
                                        int32_t other_descriptor);
// Returns whether both threads have one table of descriptors. Returns nullopt likewise.
std::optional<bool> share_descriptors(int32_t thread, int32_t other_thread);

}  // namespace penstock::trace
