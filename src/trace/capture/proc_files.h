#pragma once

// What the system tells about the open files of another process, by way of /proc.
//
// Nothing here may wait for a file system. A file system in user space is served by a process, and
// that process may be one of those that stand still until we let them go on: who asks it then waits
// for ever. So the type of a file system comes from the list of mounts, sizes are those that the
// kernel knows, and a name is looked up in the kernel's cache alone.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_set>

#include "os/fd.h"
#include "trace/format/format.h"

namespace penstock::trace {

// What a descriptor stands for.
struct OpenFile {
  FileRecord record;      // without its id
  uint64_t position = 0;  // only where asked for
  uint32_t flags = 0;     // of flag::; likewise
};

enum class Detail {
  identity,      // which file it is
  and_position,  // and where it stands, and how it was opened
};

// Which devices are file systems whose files are no storage (/proc, /sys and their like): from the
// mounts that a process has. Those of our own mount namespace are kept until they change.
//
// Thread safety: none.
class PseudoDevices {
 public:
  PseudoDevices() = default;

  // `device` is one of a mount that the thread sees.
  bool contain(int32_t thread, uint64_t device);

 private:
  os::Fd own_mounts_;  // /proc/self/mountinfo, which tells when it has changed
  uint64_t own_space_ = 0;
  std::unordered_set<uint64_t> own_;
};

// Nothing when it is not open any more, or may not be looked at.
std::optional<OpenFile> open_file_of(int32_t thread, int32_t descriptor, Detail detail,
                                     PseudoDevices& pseudo);
// The file that a path leads to, as the thread sees it, and the path that it has. `directory` is a
// descriptor or AT_FDCWD. Symbolic links at the end are followed when asked to. Nothing where it is
// not there; `in_cache` tells whether the kernel could say so without asking the file system. It
// knows every name by which a file is open, and the names that the last calls have used.
std::optional<FileRecord> file_at(int32_t thread, int32_t directory, const std::string& path,
                                  bool follow, PseudoDevices& pseudo, bool& in_cache);
// The path without its links and dots, as we see it; nothing where the kernel would have to ask.
std::optional<std::string> real_path(const std::string& path);
// The size now; nothing as above.
std::optional<uint64_t> size_of(int32_t thread, int32_t descriptor);

// The flags of open() as ours.
uint32_t open_flags(uint64_t system_flags);

// The magic numbers of the same file systems.
std::span<const uint64_t> pseudo_file_systems();

// A device as stat() has it, from the kernel's own form (major << 20 | minor).
uint64_t device_number(uint32_t in_kernel);

// The process of a thread; 0: it is gone.
int32_t process_of(int32_t thread);
// The program that a process runs.
std::string program_of(int32_t process);

// Whether both descriptors are one open file description: they share their position. Nothing when
// the system does not tell.
std::optional<bool> is_same_description(int32_t thread, int32_t descriptor, int32_t other_thread,
                                        int32_t other_descriptor);
// Whether they have one table of descriptors. Likewise.
std::optional<bool> share_descriptors(int32_t thread, int32_t other_thread);

}  // namespace penstock::trace
