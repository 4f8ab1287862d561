#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "trace/proc_files.h"

namespace penstock::trace {
namespace {

constexpr std::array<uint64_t, 9> pseudo_systems = {
    PROC_SUPER_MAGIC, SYSFS_MAGIC,      CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC,
    TRACEFS_MAGIC,    SECURITYFS_MAGIC, BPF_FS_MAGIC,       PIPEFS_MAGIC};

std::string link_text(const char* path) {
  std::array<char, 4096> text;
  const ssize_t length = ::readlink(path, text.data(), text.size());
  return length <= 0 ? std::string() : std::string(text.data(), static_cast<size_t>(length));
}

FileKind kind_of(uint32_t mode, const char* path, const std::string& name, bool may_be_pseudo) {
  if (name.starts_with("/memfd:")) return FileKind::pseudo;  // memory, by a file's name
  if (S_ISDIR(mode)) return FileKind::directory;
  if (S_ISBLK(mode)) return FileKind::block_device;
  if (S_ISCHR(mode)) return FileKind::character_device;
  if (S_ISFIFO(mode)) return FileKind::pipe;
  if (S_ISSOCK(mode)) return FileKind::socket;
  if (S_ISREG(mode)) {
    struct statfs system = {};
    if (may_be_pseudo && ::statfs(path, &system) == 0 &&
        std::ranges::find(pseudo_systems, static_cast<uint64_t>(system.f_type)) !=
            pseudo_systems.end()) {
      return FileKind::pseudo;
    }
    return FileKind::regular;
  }
  return name == "anon_inode:[io_uring]" ? FileKind::ring : FileKind::other;
}

std::optional<FileRecord> record_at(const char* path, const std::string& name, bool follow) {
  struct statx found = {};
  const int flags = AT_STATX_DONT_SYNC | (follow ? 0 : AT_SYMLINK_NOFOLLOW);
  if (::statx(AT_FDCWD, path, flags, STATX_BASIC_STATS | STATX_BTIME, &found) != 0) return {};
  FileRecord record;
  // Files of a disk have a device with a major number, as most of those with a size do.
  const bool may_be_pseudo = found.stx_dev_major == 0;
  record.kind = kind_of(found.stx_mode, path, name, may_be_pseudo);
  const bool is_device =
      record.kind == FileKind::block_device || record.kind == FileKind::character_device;
  record.device = is_device ? makedev(found.stx_rdev_major, found.stx_rdev_minor)
                            : makedev(found.stx_dev_major, found.stx_dev_minor);
  record.inode = is_device ? 0 : found.stx_ino;  // one device may have several names
  if ((found.stx_mask & STATX_BTIME) != 0 && is_storage(record.kind) && !is_device) {
    record.birth_ns =
        static_cast<uint64_t>(found.stx_btime.tv_sec) * 1'000'000'000u + found.stx_btime.tv_nsec;
  }
  record.bytes = found.stx_size;
  record.path = name;
  return record;
}

// A small file of /proc, whole.
std::string contents(const char* path) {
  const int fd = ::open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  std::array<char, 4096> text;
  const ssize_t length = ::read(fd, text.data(), text.size());
  ::close(fd);
  return length <= 0 ? std::string() : std::string(text.data(), static_cast<size_t>(length));
}

std::optional<uint64_t> field(const std::string& text, std::string_view name, int base) {
  size_t at = text.find(name);
  if (at == std::string::npos) return {};
  at = text.find_first_not_of(" \t", at + name.size());
  if (at == std::string::npos) return {};
  uint64_t value = 0;
  const char* begin = text.data() + at;
  if (std::from_chars(begin, text.data() + text.size(), value, base).ec != std::errc{}) return {};
  return value;
}

int32_t status_number(int32_t thread, std::string_view name) {
  const std::string status = contents(("/proc/" + std::to_string(thread) + "/status").c_str());
  return static_cast<int32_t>(field(status, name, 10).value_or(0));
}

using PathText = std::array<char, 64>;
PathText proc_path(const char* form, int32_t thread, int32_t descriptor) {
  PathText path;
  std::snprintf(path.data(), path.size(), form, thread, descriptor);
  return path;
}

// What leads to the same file from here.
std::string path_from_here(int32_t thread, int32_t directory, const std::string& path) {
  const std::string process = "/proc/" + std::to_string(thread);
  if (path.starts_with('/')) return process + "/root" + path;
  if (directory == AT_FDCWD) return process + "/cwd/" + path;
  return process + "/fd/" + std::to_string(directory) + "/" + path;
}

// kcmp() may be forbidden (by a container), or not be built into the kernel.
std::optional<bool> compared(long answer) {
  if (answer < 0 && (errno == EPERM || errno == ENOSYS)) return {};
  return answer == 0;
}

}  // namespace

uint64_t device_number(uint32_t in_kernel) {
  return makedev(in_kernel >> 20, in_kernel & ((1u << 20) - 1));
}

std::span<const uint64_t> pseudo_file_systems() {
  return pseudo_systems;
}

std::optional<OpenFile> open_file_of(int32_t thread, int32_t descriptor, Detail detail) {
  const PathText path = proc_path("/proc/%d/fd/%d", thread, descriptor);
  auto record = record_at(path.data(), link_text(path.data()), true);
  if (!record) return {};
  OpenFile file{.record = std::move(*record)};
  if (detail == Detail::and_position) {
    const std::string info = contents(proc_path("/proc/%d/fdinfo/%d", thread, descriptor).data());
    file.position = field(info, "pos:", 10).value_or(0);
    file.flags = open_flags(field(info, "flags:", 8).value_or(0));
  }
  return file;
}

std::optional<FileRecord> file_at(int32_t thread, int32_t directory, const std::string& path,
                                  bool follow) {
  return record_at(path_from_here(thread, directory, path).c_str(),
                   absolute_path(thread, directory, path), follow);
}

std::string absolute_path(int32_t thread, int32_t directory, const std::string& path) {
  if (path.starts_with('/')) return path;
  const std::string folder = directory == AT_FDCWD
                                 ? link_text(("/proc/" + std::to_string(thread) + "/cwd").c_str())
                                 : link_text(proc_path("/proc/%d/fd/%d", thread, directory).data());
  return folder.ends_with('/') ? folder + path : folder + "/" + path;
}

std::optional<uint64_t> size_of(int32_t thread, int32_t descriptor) {
  struct stat found = {};
  if (::stat(proc_path("/proc/%d/fd/%d", thread, descriptor).data(), &found) != 0) return {};
  return static_cast<uint64_t>(found.st_size);
}

uint32_t open_flags(uint64_t system_flags) {
  uint32_t flags = 0;
  const uint64_t mode = system_flags & O_ACCMODE;
  if (mode == O_RDONLY || mode == O_RDWR) flags |= flag::read;
  if (mode == O_WRONLY || mode == O_RDWR) flags |= flag::write;
  if (system_flags & O_APPEND) flags |= flag::append;
  if (system_flags & O_DIRECT) flags |= flag::direct;
  if (system_flags & O_DSYNC) flags |= flag::synchronous;  // O_SYNC contains it
  if (system_flags & O_TRUNC) flags |= flag::truncates;
  if (system_flags & O_CREAT) flags |= flag::creates;
  if (system_flags & O_CLOEXEC) flags |= flag::close_on_exec;
  return flags;
}

int32_t process_of(int32_t thread) {
  return status_number(thread, "Tgid:");
}
int32_t parent_of(int32_t process) {
  return status_number(process, "PPid:");
}

std::string program_of(int32_t process) {
  return link_text(("/proc/" + std::to_string(process) + "/exe").c_str());
}

std::optional<bool> is_same_description(int32_t process, int32_t descriptor, int32_t other_process,
                                        int32_t other_descriptor) {
  return compared(
      ::syscall(SYS_kcmp, process, other_process, KCMP_FILE, descriptor, other_descriptor));
}

std::optional<bool> share_descriptors(int32_t process, int32_t other_process) {
  return compared(::syscall(SYS_kcmp, process, other_process, KCMP_FILES, 0, 0));
}

}  // namespace penstock::trace
