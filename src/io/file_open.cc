// Opening files: inputs, temporaries, outputs, and files that stay for a later run.

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "base/bits.h"
#include "io/file.h"
#include "io/input_guard.h"
#include "io/names.h"
#include "io/outlet.h"
#include "io/output_target.h"
#include "os/fd.h"
#include "os/memory.h"

namespace penstock::io {

namespace {

// The most bytes that an output to a stream writes without a thread: what a pipe holds.
constexpr uint64_t bytes_without_thread_max = 64 << 10;

// Returns whether direct requests in our sectors work on the descriptor, by statx, or else by a
// trial. tmpfs accepts O_DIRECT but uses the page cache; a device's node in /dev lies on it, too,
// which says nothing about the device.
bool direct_works(int fd, bool writable) {
  struct statfs system;
  struct stat file;
  if (::fstatfs(fd, &system) != 0 || ::fstat(fd, &file) != 0) return false;
  if (S_ISREG(file.st_mode) && (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC))
    return false;
#ifdef STATX_DIOALIGN
  struct statx status;
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 &&
      (status.stx_mask & STATX_DIOALIGN) != 0) {
    auto fits = [](uint32_t alignment) { return alignment >= 1 && alignment <= sector_bytes; };
    return fits(status.stx_dio_mem_align) && fits(status.stx_dio_offset_align);
  }
#endif
  std::unique_ptr<void, decltype(&std::free)> sector(std::aligned_alloc(sector_bytes, sector_bytes),
                                                     &std::free);
  if (!sector) return false;
  if (writable && S_ISREG(file.st_mode) && file.st_size == 0) {
    std::memset(sector.get(), 0, sector_bytes);
    return os::retried([&] { return ::pwrite(fd, sector.get(), sector_bytes, 0); }) ==
               sector_bytes &&
           ::ftruncate(fd, 0) == 0;
  }
  return os::retried([&] { return ::pread(fd, sector.get(), sector_bytes, 0); }) >= 0;
}

// Returns whether a regular file has as many bytes as it reports. Files that the system generates
// report 0 bytes in /proc, a page in /sys, and 0 in many FUSE file systems. (Known file systems are
// not probed by reading a byte: some files there return each byte only once.)
bool knows_its_size(int fd, const struct stat& status) {
  struct statfs system;
  if (::fstatfs(fd, &system) == 0) {
    // A number, because f_type is signed on some machines.
    switch (static_cast<uint32_t>(system.f_type)) {
      case PROC_SUPER_MAGIC:
      case SYSFS_MAGIC:
      case DEBUGFS_MAGIC:
      case TRACEFS_MAGIC:
      case SECURITYFS_MAGIC:
      case CGROUP_SUPER_MAGIC:
      case CGROUP2_SUPER_MAGIC:
        return false;
      default:
        break;
    }
  }
  if (status.st_size != 0) return true;
  char byte;
  return os::retried([&] { return ::pread(fd, &byte, 1, 0); }) == 0;
}

// Duplicates a descriptor that the program was started with. Redirected input is an ordinary file
// if nobody has read from it.
Result<int> duplicate(int fd, const char* attempted, const std::string& path) {
  int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (copy < 0) return system_error(errno, attempted, path);
  return copy;
}

std::unexpected<Error> in_use(const std::string& path) {
  return failure(ErrorCode::permission, "write over a device that is in use", path,
                 "a device that nothing uses");
}

// Returns whether the file or device of `status` may be written in place.
Status may_write_over(const struct stat& status, const std::string& path,
                      const OutputOptions& options) {
  // The input check comes first: a user who also reads the device should not get the hint below.
  if (options.inputs) {
    if (auto apart = options.inputs->check_apart(status, path); !apart) return apart;
  }
  if (!S_ISBLK(status.st_mode) || options.rules.overwrite_device) return {};
  return failure(ErrorCode::permission, "write over a device: all data on it would be lost", path,
                 "--overwrite-device, if nothing on it is needed any more");
}

bool is_pipe(const std::string& name) {
  struct stat status;
  return ::stat(name.c_str(), &status) == 0 && S_ISFIFO(status.st_mode);
}

// Opens an output. A pipe without a reader blocks open() without an end; so with `cancel` it is
// tried again and again.
int open_to_write(const std::string& name, int flags, const std::atomic<bool>* cancel) {
  constexpr timespec pause = {.tv_sec = 0, .tv_nsec = 10'000'000};
  if (cancel == nullptr || !is_pipe(name)) return ::open(name.c_str(), flags);
  for (;;) {
    const int fd = ::open(name.c_str(), flags | O_NONBLOCK);
    if (fd >= 0) ::fcntl(fd, F_SETFL, O_WRONLY);
    if (fd >= 0 || errno != ENXIO) return fd;
    if (cancel->load(std::memory_order_relaxed)) {
      errno = ECANCELED;
      return -1;
    }
    ::nanosleep(&pause, nullptr);
  }
}

}  // namespace

// Opens the same file once more for direct I/O, so that a buffered descriptor remains for pieces
// that are no whole sectors, whatever the trial says.
void File::open_direct(int flags) {
  int direct = ::open(descriptor_path(buffered_fd_).c_str(), flags | O_DIRECT | O_CLOEXEC);
  if (direct < 0) return;
  if (!direct_works(direct, flags == O_RDWR)) {
    ::close(direct);
    return;
  }
  fd_ = direct;
  caching_ = Caching::direct;
  // Single pages only: a large folio from readahead could be made dirty by a neighbour's unaligned
  // end, and a direct write could then not drop it from the cache.
  ::posix_fadvise(buffered_fd_, 0, 0, POSIX_FADV_RANDOM);
}

Result<File> File::open_read(const std::string& path, Caching wanted) {
  return open_read(path, wanted, 0);
}

Result<File> File::open_input(const std::string& path, Caching wanted) {
  if (path == "-" || !is_pipe(path)) return open_read(path, wanted);
  auto file = open_read(path, wanted, O_NONBLOCK);
  if (file) ::fcntl(file->buffered_fd_, F_SETFL, O_RDONLY);
  return file;
}

Result<File> File::open_read(const std::string& path, Caching wanted, int more_flags) {
  os::Fd fd;
  if (path == "-") {
    auto copy = duplicate(STDIN_FILENO, "read", path);
    if (!copy) return std::unexpected(copy.error());
    fd.reset(*copy);
  } else {
    fd.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | more_flags));
  }
  struct stat status;
  if (!fd || ::fstat(fd.get(), &status) != 0) {
    const int saved = errno;
    return system_error(saved, "open", path, saved == EMFILE ? "a higher limit (ulimit -n)" : "");
  }
  if (S_ISDIR(status.st_mode)) {
    return std::unexpected(
        Error{ErrorCode::invalid_argument, "read", path, EISDIR, "the files in it"});
  }
  Kind kind = kind_of(status);
  if (kind == Kind::regular && !knows_its_size(fd.get(), status)) kind = Kind::stream;
  if (path == "-" && kind != Kind::stream && ::lseek(fd.get(), 0, SEEK_CUR) != 0)
    kind = Kind::stream;
  File file(fd.release(), path, kind);
  if (wanted == Caching::direct) file.read_directly();
  return file;
}

bool File::is_cached() const {
  // cachestat(2), which the C library does not have yet. It walks over all present pages, 2 ms for
  // each GiB; so a large file is sampled at `places` evenly spread places.
  constexpr long call = 451;
  constexpr uint64_t places = 64;
  constexpr uint64_t place_bytes = 64 * os::page_bytes;
  struct Range {
    uint64_t offset, bytes;
  };
  struct Pages {
    uint64_t cached, dirty, in_write_back, evicted, evicted_lately;
  };
  const auto bytes = size();
  if (!seekable() || !bytes || *bytes == 0) return false;
  uint64_t all = 0, cached = 0;
  const uint64_t step = std::max(place_bytes, round_up(ceil_div(*bytes, places), os::page_bytes));
  for (uint64_t at = 0; at < *bytes; at += step) {
    const Range range = {at, std::min(place_bytes, *bytes - at)};
    Pages pages = {};
    if (::syscall(call, buffered_fd_, &range, &pages, 0) != 0) return false;
    all += ceil_div(range.bytes, os::page_bytes);
    cached += pages.cached;
  }
  return cached >= all - all / 8;
}

void File::read_directly() {
  if (seekable() && caching_ == Caching::buffered) open_direct(O_RDONLY);
}

// Creates an unnamed file, or a named one if the file system has no unnamed ones, or if one that is
// to get a name could not be linked.
Result<File> File::create_in(const std::string& directory, const std::string& path, unsigned mode,
                             Caching wanted, bool gets_name) {
  NamedFile created{::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, mode), {}};
  if (created.fd >= 0 && gets_name && !can_be_linked(created.fd, directory)) {
    ::close(created.fd);
    created.fd = -1;
  }
  if (created.fd < 0) created = create_named(directory, mode);
  if (created.fd < 0) {
    int saved = errno;
    return system_error(saved, "create a file in " + directory, path,
                        saved == ENOENT    ? "create the directory first"
                        : saved == ENOTDIR ? "a directory"
                        : saved == EMFILE  ? "a higher limit (ulimit -n)"
                                           : "another directory");
  }
  File file(created.fd, path, Kind::regular);
  file.name_ = std::move(created.name);
  if (wanted == Caching::direct) file.open_direct(O_RDWR);
  file.grows_ahead_ = file.caching_ == Caching::direct;
  return file;
}

Result<File> File::create_temporary(const std::string& directory, Caching wanted) {
  auto file = create_in(directory, directory, 0600, wanted, false);
  if (file && !file->name_.empty() && ::unlink(file->name_.c_str()) == 0) file->name_.clear();
  return file;
}

// Checks properties that are known only when the file is open.
Status File::check_in_place(const OutputOptions& options) const {
  struct stat status;
  if (::fstat(buffered_fd_, &status) != 0) return system_error(errno, "look at", path_);
  if (auto may = may_write_over(status, path_, options); !may) return may;
  if (!S_ISBLK(status.st_mode)) return {};
  // The process that opened standard output need not have requested exclusive use.
  if (!seekable()) {
    const int claim = ::open(descriptor_path(buffered_fd_).c_str(), O_RDONLY | O_EXCL | O_CLOEXEC);
    if (claim < 0 && errno == EBUSY) return in_use(path_);
    if (claim >= 0) ::close(claim);
  }
  uint64_t bytes = 0;
  if (::ioctl(buffered_fd_, BLKGETSIZE64, &bytes) != 0)
    return system_error(errno, "find the size", path_);
  // Standard output has room from its current position on.
  const off_t place = seekable() ? 0 : ::lseek(buffered_fd_, 0, SEEK_CUR);
  bytes -= std::min(bytes, static_cast<uint64_t>(std::max<off_t>(place, 0)));
  if (bytes >= options.bytes) return {};
  return failure(ErrorCode::out_of_space,
                 fmt::format("write {} bytes where {} have room", options.bytes, bytes), path_,
                 "a larger device");
}

Status File::open_outlet(const OutputOptions& options) {
  auto descriptor = Descriptor::duplicate(fd_, path_);
  if (!descriptor) return std::unexpected(descriptor.error());
  descriptor->set_cancel(options.cancel);
  const bool has_thread = options.bytes == 0 || options.bytes > bytes_without_thread_max;
  outlet_ = os::LeftToParent<Outlet>(std::make_unique<Outlet>(
      std::make_shared<DescriptorSink>(std::move(*descriptor)), has_thread));
  return {};
}

void File::guard(const OutputOptions& options, bool replaces_input) {
  syncs_ = options.rules.sync;
  if (replaces_input) replaced_ = options.inputs;
}

// Opens an output that is no regular file.
Result<File> File::open_in_place(const std::string& name, const std::string& path, Kind kind,
                                 const OutputOptions& options) {
  // O_EXCL: the kernel refuses a block device that is mounted, swapped to or part of another one,
  // as a whole or in part, by whatever name and in whatever namespace.
  const int flags = kind == Kind::stream         ? O_WRONLY
                    : kind == Kind::block_device ? O_RDWR | O_EXCL
                                                 : O_RDWR;
  int fd = open_to_write(name, flags | O_CLOEXEC | O_NOCTTY, options.cancel);
  if (fd < 0 && errno == ECANCELED)
    return failure(ErrorCode::cancelled, "wait for a reader of the pipe", path);
  if (fd < 0 && errno == EBUSY) return in_use(path);
  if (fd < 0) return system_error(errno, "write", path);
  File file(fd, path, kind);
  if (auto fits = file.check_in_place(options); !fits) return std::unexpected(fits.error());
  if (options.caching == Caching::direct && file.seekable()) file.open_direct(O_RDWR);
  if (!file.seekable()) {
    if (auto opened = file.open_outlet(options); !opened) return std::unexpected(opened.error());
  }
  file.guard(options, false);
  return file;
}

Result<File> File::create_output(const std::string& path, const OutputOptions& options) {
  auto target = resolve_output(path);
  if (!target) return std::unexpected(target.error());
  if (target->descriptor) {
    // A read-only descriptor is refused now, not at the end of the work.
    const int flags = ::fcntl(*target->descriptor, F_GETFL);
    if (flags >= 0 && (flags & O_ACCMODE) == O_RDONLY) return system_error(EBADF, "write", path);
    auto copy = duplicate(*target->descriptor, "write", path);
    if (!copy) return std::unexpected(copy.error());
    File file(*copy, path, Kind::stream);
    if (auto may = file.check_in_place(options); !may) return std::unexpected(may.error());
    if (auto opened = file.open_outlet(options); !opened) return std::unexpected(opened.error());
    file.guard(options, false);
    return file;
  }
  if (!target->is_file()) {
    if (auto may = may_write_over(target->status, path, options); !may)
      return std::unexpected(may.error());
    return open_in_place(target->name, path, kind_of(target->status), options);
  }
  auto replaces = target->replaces_input(options, path);
  if (!replaces) return std::unexpected(replaces.error());
  auto file = create_in(directory_of(target->name), path, target->mode(), options.caching, true);
  if (!file) return file;
  file->final_ = std::move(target->name);
  file->guard(options, *replaces);
  return file;
}

Result<File> File::open_named(const std::string& name, const std::string& path, bool may_create,
                              unsigned mode, Caching wanted) {
  // O_NONBLOCK: a pipe of that name must not make us wait for its other end.
  const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK;
  int fd = ::open(name.c_str(), flags | (may_create ? O_CREAT : 0), mode);
  if (fd < 0) return system_error(errno, "open", name);
  File file(fd, path, Kind::regular);
  struct stat status;
  if (::fstat(fd, &status) != 0) return system_error(errno, "open", name);
  if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid()) {
    return failure(ErrorCode::permission, "resume with a file that is not this user's own", name,
                   "remove it");
  }
  if (wanted == Caching::direct) file.open_direct(O_RDWR);
  file.grows_ahead_ = file.caching_ == Caching::direct;
  const auto bytes = static_cast<uint64_t>(status.st_size);
  // Relaxed: nobody else has it yet.
  file.end_.store(bytes, std::memory_order_relaxed);
  file.grown_.store(bytes, std::memory_order_relaxed);
  return file;
}

Result<File> File::open_kept(const std::string& path, Caching wanted) {
  return open_named(path, path, true, 0600, wanted);
}

Result<std::string> File::kept_output_path(const std::string& path, const std::string& name) {
  auto followed = follow_links(path);
  if (!followed) return std::unexpected(followed.error());
  return fmt::format("{}/{}", directory_of(followed->name), name);
}

Result<File> File::open_kept_output(const std::string& path, const std::string& name,
                                    uint64_t bytes, const OutputOptions& options) {
  auto target = resolve_output(path);
  if (!target) return std::unexpected(target.error());
  if (!target->is_file()) {
    return failure(ErrorCode::unsupported, "resume an output that is no regular file", path,
                   "the name of a file");
  }
  auto in_progress = kept_output_path(path, name);
  if (!in_progress) return std::unexpected(in_progress.error());
  auto replaces = target->replaces_input(options, path);
  if (!replaces) return std::unexpected(replaces.error());
  auto file = open_named(*in_progress, path, bytes == 0, target->mode(), options.caching);
  if (!file) return file;
  // The lock comes before the truncation. (A file system without locks trusts the caller.)
  auto locked = file->try_lock();
  if (locked && (!*locked || !file->has_name(*in_progress))) {
    return failure(ErrorCode::invalid_argument, "write a file that another process is writing",
                   *in_progress, "wait until it has ended");
  }
  file->name_ = std::move(*in_progress);
  file->final_ = std::move(target->name);
  file->keeps_name_ = true;
  file->guard(options, *replaces);
  if (bytes == 0) {
    if (auto cut = file->set_size(0); !cut) return std::unexpected(cut.error());
    return file;
  }
  if (file->end_.load(std::memory_order_relaxed) < bytes) {
    return failure(ErrorCode::corrupt, "resume an output that became shorter", file->name_);
  }
  file->end_.store(bytes, std::memory_order_relaxed);
  return file;
}

}  // namespace penstock::io
