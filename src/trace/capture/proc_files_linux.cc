#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "trace/capture/proc_files.h"

namespace penstock::trace {
namespace {

// Pseudo file systems, by their names for statfs() and in the list of mounts.
constexpr std::array<uint64_t, 9> pseudo_systems = {
    PROC_SUPER_MAGIC, SYSFS_MAGIC,      CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC,
    TRACEFS_MAGIC,    SECURITYFS_MAGIC, BPF_FS_MAGIC,       PIPEFS_MAGIC};
constexpr std::array<std::string_view, pseudo_systems.size()> pseudo_system_names = {
    "proc", "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "bpf", "pipefs"};

std::string link_text(const char* path) {
  std::array<char, 4096> text;
  const ssize_t length = ::readlink(path, text.data(), text.size());
  return length <= 0 ? std::string() : std::string(text.data(), static_cast<size_t>(length));
}

FileKind kind_of(const struct statx& found, const std::string& name, int32_t thread,
                 PseudoDevices& pseudo) {
  const uint32_t mode = found.stx_mode;
  if (name.starts_with("/memfd:")) return FileKind::pseudo;  // memory with a file's name
  if (S_ISDIR(mode)) return FileKind::directory;
  if (S_ISBLK(mode)) return FileKind::block_device;
  if (S_ISCHR(mode)) return FileKind::character_device;
  if (S_ISFIFO(mode)) return FileKind::pipe;
  if (S_ISSOCK(mode)) return FileKind::socket;
  if (S_ISREG(mode)) {
    // Files of a disk have a device with a major number, and no pseudo file takes space.
    const bool may_be_pseudo = found.stx_dev_major == 0 && found.stx_blocks == 0;
    return may_be_pseudo && pseudo.contain(thread, makedev(0, found.stx_dev_minor))
               ? FileKind::pseudo
               : FileKind::regular;
  }
  return name == "anon_inode:[io_uring]" ? FileKind::ring : FileKind::other;
}

// Returns the file that a link of /proc leads to, or the file of `descriptor` if `path` is empty.
// No file system is contacted on the way, nor (DONT_SYNC) for attributes newer than the kernel's.
std::optional<FileRecord> record_at(int descriptor, const char* path, const std::string& name,
                                    int32_t thread, PseudoDevices& pseudo) {
  struct statx found = {};
  if (::statx(descriptor, path, AT_STATX_DONT_SYNC | AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME,
              &found) != 0) {
    return {};
  }
  FileRecord record;
  record.kind = kind_of(found, name, thread, pseudo);
  const bool is_device =
      record.kind == FileKind::block_device || record.kind == FileKind::character_device;
  record.device = is_device ? makedev(found.stx_rdev_major, found.stx_rdev_minor)
                            : makedev(found.stx_dev_major, found.stx_dev_minor);
  record.inode = is_device ? 0 : found.stx_ino;  // a device may have several names
  if ((found.stx_mask & STATX_BTIME) != 0 && is_storage(record.kind) && !is_device) {
    record.birth_ns =
        static_cast<uint64_t>(found.stx_btime.tv_sec) * 1'000'000'000u + found.stx_btime.tv_nsec;
  }
  record.bytes = found.stx_size;
  record.path = name;
  return record;
}

// Reads a small file of /proc.
std::string contents(const char* path) {
  const os::Fd fd(::open(path, O_RDONLY | O_CLOEXEC));
  if (!fd) return {};
  std::array<char, 4096> text;
  const ssize_t length = ::read(fd.get(), text.data(), text.size());
  return length <= 0 ? std::string() : std::string(text.data(), static_cast<size_t>(length));
}

// Reads a file of any size, from its beginning.
std::string all_contents(int fd) {
  std::string text;
  std::array<char, 16384> piece;
  (void)::lseek(fd, 0, SEEK_SET);
  while (true) {
    const ssize_t got = ::read(fd, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(piece.data(), static_cast<size_t>(got));
  }
}

// Adds the pseudo file systems of a list of mounts, whose lines are
// "36 35 98:0 /root /mount/point options [more...] - type source more". Blanks in names are \040.
void add_pseudo_devices(std::string_view mounts, std::unordered_set<uint64_t>& devices) {
  while (!mounts.empty()) {
    const std::string_view line = mounts.substr(0, mounts.find('\n'));
    mounts.remove_prefix(std::min(mounts.size(), line.size() + 1));
    const size_t mark = line.find(" - ");
    if (mark == line.npos) continue;
    std::string_view type = line.substr(mark + 3);
    type = type.substr(0, type.find(' '));
    if (std::ranges::find(pseudo_system_names, type) == pseudo_system_names.end()) continue;
    size_t at = line.find(' ');
    at = line.find(' ', at + 1) + 1;
    uint32_t major = 0, minor = 0;
    const char* const end = line.data() + line.size();
    const auto first = std::from_chars(line.data() + at, end, major);
    if (first.ec != std::errc{} || first.ptr == end || *first.ptr != ':') continue;
    if (std::from_chars(first.ptr + 1, end, minor).ec != std::errc{}) continue;
    devices.insert(makedev(major, minor));
  }
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

using PathText = std::array<char, 64>;
PathText proc_path(const char* form, int32_t thread, int32_t descriptor) {
  PathText path;
  std::snprintf(path.data(), path.size(), form, thread, descriptor);
  return path;
}

// Opens the start of a path: its thread's root, its current directory, or one of its descriptors.
int open_start(int32_t thread, int32_t directory, bool absolute) {
  const PathText start = absolute                ? proc_path("/proc/%d/root", thread, 0)
                         : directory == AT_FDCWD ? proc_path("/proc/%d/cwd", thread, 0)
                                                 : proc_path("/proc/%d/fd/%d", thread, directory);
  return ::open(start.data(), O_PATH | O_CLOEXEC);
}

// Opens a name from the kernel's cache with O_PATH. Returns a negative errno otherwise: EAGAIN if the
// file system would have to be contacted. EAGAIN also comes if names change meanwhile, so there are
// some tries.
int open_cached(int start, const char* path, uint64_t flags, uint64_t resolve) {
  constexpr int tries = 16;
  open_how how = {};
  how.flags = O_PATH | O_CLOEXEC | flags;
  how.resolve = RESOLVE_CACHED | resolve;
  long answer = -1;
  for (int i = 0; i < tries; ++i) {
    answer = ::syscall(SYS_openat2, start, path, &how, sizeof how);
    if (answer >= 0) return static_cast<int>(answer);
    if (errno != EAGAIN && errno != EINTR) return -errno;
  }
  return -EAGAIN;
}

std::string name_of_descriptor(int descriptor) {
  return link_text(proc_path("/proc/self/fd/%d", descriptor, 0).data());
}

// Converts an answer of kcmp(), which a container may forbid and a kernel may lack.
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

bool PseudoDevices::contain(int32_t thread, uint64_t device) {
  const auto space_at = [](const char* path) {
    struct stat space = {};
    return ::stat(path, &space) == 0 ? space.st_ino : ino_t{0};
  };
  if (!own_mounts_) {
    own_space_ = space_at("/proc/self/ns/mnt");
    own_mounts_ = os::Fd(::open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC));
    add_pseudo_devices(all_contents(own_mounts_.get()), own_);
  }
  if (space_at(proc_path("/proc/%d/ns/mnt", thread, 0).data()) != own_space_) {
    // The list is not kept open: that would keep the mounts of a container that has ended.
    const os::Fd mounts(
        ::open(proc_path("/proc/%d/mountinfo", thread, 0).data(), O_RDONLY | O_CLOEXEC));
    std::unordered_set<uint64_t> devices;
    if (mounts) add_pseudo_devices(all_contents(mounts.get()), devices);
    return devices.contains(device);
  }
  pollfd changed{.fd = own_mounts_.get(), .events = POLLPRI, .revents = 0};
  if (::poll(&changed, 1, 0) > 0) {
    own_.clear();
    add_pseudo_devices(all_contents(own_mounts_.get()), own_);
  }
  return own_.contains(device);
}

std::optional<OpenFile> open_file_of(int32_t thread, int32_t descriptor, Detail detail,
                                     PseudoDevices& pseudo) {
  const PathText path = proc_path("/proc/%d/fd/%d", thread, descriptor);
  auto record = record_at(AT_FDCWD, path.data(), link_text(path.data()), thread, pseudo);
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
                                  bool follow, PseudoDevices& pseudo, bool& in_cache) {
  in_cache = true;
  const bool absolute = path.starts_with('/');
  const os::Fd start(open_start(thread, directory, absolute));
  if (!start) return {};
  // Absolute links on the way begin at the thread's root, too.
  const int opened = open_cached(start.get(), path.c_str(), follow ? 0 : O_NOFOLLOW,
                                 absolute ? RESOLVE_IN_ROOT : 0);
  const os::Fd file(opened);
  if (!file) {
    in_cache = opened != -EAGAIN;
    return {};
  }
  return record_at(file.get(), "", name_of_descriptor(file.get()), thread, pseudo);
}

std::string absolute_name(int32_t thread, int32_t directory, const std::string& path) {
  if (path.starts_with('/')) return path;
  std::error_code error;
  const std::string proc = "/proc/" + std::to_string(thread);
  const std::filesystem::path folder = std::filesystem::read_symlink(
      directory == AT_FDCWD ? proc + "/cwd" : proc + "/fd/" + std::to_string(directory), error);
  return error ? path : (folder / path).string();
}

std::optional<std::string> real_path(const std::string& path) {
  const os::Fd file(open_cached(AT_FDCWD, path.c_str(), 0, 0));
  if (!file) return {};
  return name_of_descriptor(file.get());
}

std::optional<uint64_t> size_of(int32_t thread, int32_t descriptor) {
  struct statx found = {};
  if (::statx(AT_FDCWD, proc_path("/proc/%d/fd/%d", thread, descriptor).data(), AT_STATX_DONT_SYNC,
              STATX_SIZE, &found) != 0) {
    return {};
  }
  return found.stx_size;
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
  const std::string status = contents(("/proc/" + std::to_string(thread) + "/status").c_str());
  return static_cast<int32_t>(field(status, "Tgid:", 10).value_or(0));
}

std::string program_of(int32_t process) {
  return link_text(("/proc/" + std::to_string(process) + "/exe").c_str());
}

std::optional<bool> is_same_description(int32_t thread, int32_t descriptor, int32_t other_thread,
                                        int32_t other_descriptor) {
  return compared(
      ::syscall(SYS_kcmp, thread, other_thread, KCMP_FILE, descriptor, other_descriptor));
}

std::optional<bool> share_descriptors(int32_t thread, int32_t other_thread) {
  return compared(::syscall(SYS_kcmp, thread, other_thread, KCMP_FILES, 0, 0));
}

}  // namespace penstock::trace
