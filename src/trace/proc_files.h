#pragma once

// What the system tells about the open files of another process, by way of /proc.

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "trace/format.h"

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

// Nothing when it is not open any more, or may not be looked at.
std::optional<OpenFile> open_file_of(int32_t thread, int32_t descriptor, Detail detail);
// The file that a path leads to, as the thread sees it. `directory` is a descriptor or AT_FDCWD.
// Symbolic links at the end are followed when asked to.
std::optional<FileRecord> file_at(int32_t thread, int32_t directory, const std::string& path,
                                  bool follow);
// The same path, for people: absolute.
std::string absolute_path(int32_t thread, int32_t directory, const std::string& path);
// The size now; nothing as above.
std::optional<uint64_t> size_of(int32_t thread, int32_t descriptor);

// The flags of open() as ours.
uint32_t open_flags(uint64_t system_flags);

// The magic numbers of file systems whose files are no storage: /proc, /sys and their like.
std::span<const uint64_t> pseudo_file_systems();

// A device as stat() has it, from the kernel's own form (major << 20 | minor).
uint64_t device_number(uint32_t in_kernel);

// The process of a thread; 0: it is gone.
int32_t process_of(int32_t thread);
int32_t parent_of(int32_t process);  // likewise
// The program that a process runs.
std::string program_of(int32_t process);

// Whether both descriptors are one open file description: they share their position. Nothing when
// the system does not tell.
std::optional<bool> is_same_description(int32_t process, int32_t descriptor, int32_t other_process,
                                        int32_t other_descriptor);
// Whether they have one table of descriptors. Likewise.
std::optional<bool> share_descriptors(int32_t process, int32_t other_process);

}  // namespace penstock::trace
