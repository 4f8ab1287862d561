#include "file/file.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string_view>

#include "base/bits.h"
#include "base/check.h"
#include "base/raise_to.h"
#include "base/random.h"
#include "file/block_checks.h"
#include "file/input_guard.h"
#include "file/system_calls.h"
#include "os/fd.h"
#include "penstock/units.h"

namespace penstock::file {

std::string directory_of(const std::string& path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

namespace {

constexpr std::string_view temporary_prefix = ".penstock-";
constexpr std::string_view temporary_suffix = ".tmp";

// How much of a file may be dirty in the page cache before the engine's writers are made to wait
// for the disk.
constexpr uint64_t dirty_bytes_max = 32 * MiB;

// By how much a file that we write directly is made longer ahead of the writes.
constexpr uint64_t growth_bytes = GiB;

std::string descriptor_path(int fd) {
  return fmt::format("/proc/self/fd/{}", fd);
}

bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

// "/dev/fd/63": a name of this process's descriptor, which may be closed.
std::optional<int> named_descriptor(const std::string& path) {
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  int fd = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), fd);
  if (error != std::errc() || end != name.data() + name.size() || fd < 0) return {};
  struct stat here, own;
  if (::stat(directory_of(path).c_str(), &here) != 0 || ::stat("/proc/self/fd", &own) != 0 ||
      !is_same_file(here, own))
    return {};
  return fd;
}

// Where a chain of symbolic links ends, whether or not something is there: at a name, or at a
// descriptor of this process. The link of a descriptor goes no further: its text may name nothing
// ("pipe:[7]"), and to open a file by it anew would begin at its start, over what it holds.
struct LinkEnd {
  std::string name;
  std::optional<int> descriptor = {};
};

Result<LinkEnd> follow_links(std::string path) {
  const std::string named = path;
  for (int links = 0; links < 40; ++links) {
    if (const auto descriptor = named_descriptor(path)) return LinkEnd{path, descriptor};
    char target[4096];
    ssize_t length = ::readlink(path.c_str(), target, sizeof target);
    if (length < 0) return LinkEnd{path};
    std::string_view text(target, static_cast<size_t>(length));
    path =
        text.starts_with('/') ? std::string(text) : fmt::format("{}/{}", directory_of(path), text);
  }
  return system_error(ELOOP, "create", named);
}

Kind kind_of(const struct stat& status) {
  if (S_ISREG(status.st_mode)) return Kind::regular;
  return S_ISBLK(status.st_mode) ? Kind::block_device : Kind::stream;
}

// Where an output goes: a link followed, and what stands there now.
struct OutputTarget {
  std::string name;
  std::optional<int> descriptor = {};
  bool exists = false;
  struct stat status = {};

  unsigned mode() const { return exists ? status.st_mode & 0777 : 0666; }
  bool is_file() const { return !descriptor && (!exists || kind_of(status) == Kind::regular); }
  // REQUIRES: a regular file, or none.
  Result<bool> replaces_input(const OutputOptions& options, const std::string& path) const {
    if (!options.inputs || !exists) return false;
    if (auto may = options.inputs->check_replaceable(status, path); !may)
      return std::unexpected(may.error());
    return options.inputs->contains(status);
  }
};

// Fails where no file can be written, whatever is there.
Result<OutputTarget> resolve_output(const std::string& path) {
  if (path.empty()) return system_error(ENOENT, "create", path);
  if (path == "-") return OutputTarget{.name = path, .descriptor = STDOUT_FILENO};
  auto followed = follow_links(path);
  if (!followed) return std::unexpected(followed.error());
  OutputTarget target{.name = std::move(followed->name), .descriptor = followed->descriptor};
  if (target.descriptor) return target;
  target.exists = ::stat(target.name.c_str(), &target.status) == 0;
  // Another process's descriptor, whose link leads elsewhere than its text.
  struct stat through_links;
  if (::stat(path.c_str(), &through_links) == 0 &&
      !(target.exists && is_same_file(target.status, through_links)))
    target = {.name = path, .exists = true, .status = through_links};
  if (target.exists && S_ISDIR(target.status.st_mode)) {
    return std::unexpected(
        Error{ErrorCode::invalid_argument, "write", path, EISDIR, "the name of a file in it"});
  }
  if (!target.exists && target.name.ends_with('/')) return system_error(ENOTDIR, "create", path);
  // Replacing needs the directory's permission only, but who may not write to a file shall not
  // replace it either.
  if (target.exists && S_ISREG(target.status.st_mode) && ::access(target.name.c_str(), W_OK) != 0)
    return system_error(errno, "write", path);
  return target;
}

std::string temporary_name(const std::string& directory) {
  // Names that are taken are tried past, so where the system gives no random number, others do.
  static std::atomic<uint64_t> names{0};  // relaxed: a number for each
  uint64_t random = 0;
  if (::getrandom(&random, sizeof random, 0) != sizeof random) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    random = mix64(static_cast<uint64_t>(now) + names.fetch_add(1, std::memory_order_relaxed));
  }
  return fmt::format("{}/{}{}-{:016x}{}", directory, temporary_prefix, ::getpid(), random,
                     temporary_suffix);
}

bool is_temporary_name(std::string_view name) {
  if (!name.starts_with(temporary_prefix) || !name.ends_with(temporary_suffix)) return false;
  name.remove_prefix(temporary_prefix.size());
  name.remove_suffix(temporary_suffix.size());
  size_t dash = name.find('-');
  if (dash == 0 || dash == std::string_view::npos || name.size() - dash - 1 != 16) return false;
  return std::all_of(name.begin(), name.begin() + dash,
                     [](unsigned char c) { return std::isdigit(c); }) &&
         std::all_of(name.begin() + dash + 1, name.end(),
                     [](unsigned char c) { return std::isxdigit(c); });
}

// Whether `name` still names the file that is open as `fd`.
bool names(const std::string& name, int fd) {
  struct stat named, opened;
  return ::stat(name.c_str(), &named) == 0 && ::fstat(fd, &opened) == 0 &&
         named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
}

struct Named {
  int fd;  // or -1, and errno
  std::string name;
};

// A file with a temporary name, locked. Between creation and lock another process may take it for a
// dead run's and remove it: then we make another one.
Named create_named(const std::string& directory, unsigned mode) {
  for (;;) {
    std::string name = temporary_name(directory);
    int fd = ::open(name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0) {
      if (errno == EEXIST) continue;
      return {-1, {}};
    }
    ::flock(fd, LOCK_EX);
    if (names(name, fd)) return {fd, std::move(name)};
    ::close(fd);
  }
}

// Whether direct requests in sectors of ours work on the descriptor: what statx says, or else a
// trial. tmpfs takes O_DIRECT and goes through the page cache all the same; a device's node in
// /dev stands on it, too, and says nothing of the device.
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
    return ::pwrite(fd, sector.get(), sector_bytes, 0) == sector_bytes && ::ftruncate(fd, 0) == 0;
  }
  return ::pread(fd, sector.get(), sector_bytes, 0) >= 0;
}

// Whether a regular file holds as many bytes as it says. What the system makes up while it is read
// has 0 bytes in /proc, a page in /sys, and 0 in many a file system of FUSE. (Of those that are
// known no byte is taken to find out: some files there give each byte once.)
bool knows_its_size(int fd, const struct stat& status) {
  struct statfs system;
  if (::fstatfs(fd, &system) == 0) {
    // As numbers, because f_type is signed on some machines.
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
  char byte;
  return status.st_size != 0 || ::pread(fd, &byte, 1, 0) == 0;
}

uint64_t file_bytes_limit() {
  rlimit limit;
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 ? limit.rlim_cur : 0;
}

// A descriptor that the program was started with, duplicated. Redirected input is a file like any
// other when nobody has read from it.
Result<int> duplicate(int fd, const char* attempted, const std::string& path) {
  int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (copy < 0) return system_error(errno, attempted, path);
  return copy;
}

std::unexpected<Error> in_use(const std::string& path) {
  return failure(ErrorCode::permission, "write over a device that is in use", path,
                 "a device that nothing uses");
}

// Whether what `status` is of may be written as it is.
Status may_write_over(const struct stat& status, const std::string& path,
                      const OutputOptions& options) {
  // First of all: who reads the device as well is not to be told how to get rid of this check.
  if (options.inputs) {
    if (auto apart = options.inputs->check_apart(status, path); !apart) return apart;
  }
  if (!S_ISBLK(status.st_mode) || options.rules.overwrite_device) return {};
  return failure(ErrorCode::permission, "write over a device: all that is on it would be lost",
                 path, "--overwrite-device, when nothing on it is needed any more");
}

}  // namespace

File::File() = default;

File::File(int fd, std::string path, Kind kind)
    : fd_(fd), buffered_fd_(fd), kind_(kind), path_(std::move(path)) {}

File::File(File&& other) noexcept {
  *this = std::move(other);
}

File& File::operator=(File&& other) noexcept {
  if (this == &other) return *this;
  close();
  fd_ = std::exchange(other.fd_, -1);
  buffered_fd_ = std::exchange(other.buffered_fd_, -1);
  kind_ = other.kind_;
  caching_ = other.caching_;
  path_ = std::move(other.path_);
  name_ = std::exchange(other.name_, {});
  final_ = std::exchange(other.final_, {});
  keeps_name_ = other.keeps_name_;
  syncs_ = other.syncs_;
  replaced_ = std::exchange(other.replaced_, {});
  made_ = other.made_;
  grows_ahead_ = other.grows_ahead_;
  // Relaxed: nobody uses a file while it is moved.
  end_.store(other.end_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  grown_.store(other.grown_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  next_offset_.store(other.next_offset_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  buffered_bytes_.store(other.buffered_bytes_.load(std::memory_order_relaxed),
                        std::memory_order_relaxed);
  write_error_.store(other.write_error_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  checks_ = std::move(other.checks_);
  return *this;
}

File::~File() {
  close();
}

void File::close() noexcept {
  if (fd_ < 0) return;
  if (!name_.empty() && !keeps_name_ && !made_.is_past()) ::unlink(name_.c_str());
  if (buffered_fd_ != fd_) ::close(buffered_fd_);
  ::close(fd_);
  fd_ = buffered_fd_ = -1;
}

// The way to direct I/O is to open the same file once more, so that whatever the trial says there
// is a buffered descriptor for the pieces that are no whole sectors.
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
  os::Fd fd;
  if (path == "-") {
    auto copy = duplicate(STDIN_FILENO, "read", path);
    if (!copy) return std::unexpected(copy.error());
    fd.reset(*copy);
  } else {
    fd.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  }
  struct stat status;
  if (!fd || ::fstat(fd.get(), &status) != 0) return system_error(errno, "open", path);
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

void File::read_directly() {
  if (seekable() && caching_ == Caching::buffered) open_direct(O_RDONLY);
}

// An unnamed file, or a named one where the file system has no unnamed ones.
Result<File> File::create_in(const std::string& directory, const std::string& path, unsigned mode,
                             Caching wanted) {
  Named created{::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, mode), {}};
  if (created.fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    created = create_named(directory, mode);
  }
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
  auto file = create_in(directory, directory, 0600, wanted);
  if (file && !file->name_.empty() && ::unlink(file->name_.c_str()) == 0) file->name_.clear();
  return file;
}

// What is known only once it is open.
Status File::check_in_place(const OutputOptions& options) const {
  struct stat status;
  if (::fstat(buffered_fd_, &status) != 0) return system_error(errno, "look at", path_);
  if (auto may = may_write_over(status, path_, options); !may) return may;
  if (!S_ISBLK(status.st_mode)) return {};
  // Whoever opened standard output need not have asked for it alone.
  if (!seekable()) {
    const int claim = ::open(descriptor_path(buffered_fd_).c_str(), O_RDONLY | O_EXCL | O_CLOEXEC);
    if (claim < 0 && errno == EBUSY) return in_use(path_);
    if (claim >= 0) ::close(claim);
  }
  uint64_t bytes = 0;
  if (::ioctl(buffered_fd_, BLKGETSIZE64, &bytes) != 0)
    return system_error(errno, "find the size", path_);
  // Of standard output, from where it stands.
  const off_t place = seekable() ? 0 : ::lseek(buffered_fd_, 0, SEEK_CUR);
  bytes -= std::min(bytes, static_cast<uint64_t>(std::max<off_t>(place, 0)));
  if (bytes >= options.bytes) return {};
  return failure(ErrorCode::out_of_space,
                 fmt::format("write {} bytes where {} have room", options.bytes, bytes), path_,
                 "a larger device");
}

void File::guard(const OutputOptions& options, bool replaces_input) {
  syncs_ = options.rules.sync;
  if (replaces_input) replaced_ = options.inputs;
}

// What is no regular file.
Result<File> File::open_in_place(const std::string& name, const std::string& path, Kind kind,
                                 const OutputOptions& options) {
  // O_EXCL: of a block device the kernel refuses one that is mounted, swapped to or part of
  // another, it or a part of it, by whatever name and in whatever namespace.
  const int flags = kind == Kind::stream         ? O_WRONLY
                    : kind == Kind::block_device ? O_RDWR | O_EXCL
                                                 : O_RDWR;
  int fd = ::open(name.c_str(), flags | O_CLOEXEC | O_NOCTTY);
  if (fd < 0 && errno == EBUSY) return in_use(path);
  if (fd < 0) return system_error(errno, "write", path);
  File file(fd, path, kind);
  if (auto fits = file.check_in_place(options); !fits) return std::unexpected(fits.error());
  if (options.caching == Caching::direct && file.seekable()) file.open_direct(O_RDWR);
  file.guard(options, false);
  return file;
}

Result<File> File::create_output(const std::string& path, const OutputOptions& options) {
  auto target = resolve_output(path);
  if (!target) return std::unexpected(target.error());
  if (target->descriptor) {
    // What can only be read is told now, and not at the end of the work.
    const int flags = ::fcntl(*target->descriptor, F_GETFL);
    if (flags >= 0 && (flags & O_ACCMODE) == O_RDONLY) return system_error(EBADF, "write", path);
    auto copy = duplicate(*target->descriptor, "write", path);
    if (!copy) return std::unexpected(copy.error());
    File file(*copy, path, Kind::stream);
    if (auto may = file.check_in_place(options); !may) return std::unexpected(may.error());
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
  auto file = create_in(directory_of(target->name), path, target->mode(), options.caching);
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
    return failure(ErrorCode::permission, "go on with a file that is not this user's own", name,
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
    return failure(ErrorCode::unsupported, "write, in several runs, what is no regular file", path,
                   "the name of a file");
  }
  auto in_progress = kept_output_path(path, name);
  if (!in_progress) return std::unexpected(in_progress.error());
  auto replaces = target->replaces_input(options, path);
  if (!replaces) return std::unexpected(replaces.error());
  auto file = open_named(*in_progress, path, bytes == 0, target->mode(), options.caching);
  if (!file) return file;
  // Before it is cut. (A file system without locks has to trust the caller.)
  auto locked = file->try_lock();
  if (locked && (!*locked || !file->has_name(*in_progress))) {
    return failure(ErrorCode::invalid_argument, "write what another process is writing",
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
    return failure(ErrorCode::corrupt, "go on with an output that became shorter", file->name_);
  }
  file->end_.store(bytes, std::memory_order_relaxed);
  return file;
}

Result<bool> File::try_lock() {
  if (::flock(buffered_fd_, LOCK_EX | LOCK_NB) == 0) return true;
  if (errno == EWOULDBLOCK) return false;
  return system_error(errno, "lock", path_);
}

bool File::has_name(const std::string& path) const {
  return names(path, buffered_fd_);
}

Result<FileIdentity> File::identity() const {
  struct stat status;
  if (::fstat(buffered_fd_, &status) != 0) return system_error(errno, "look at", path_);
  return FileIdentity{
      .inode = status.st_ino,
      .bytes = static_cast<uint64_t>(status.st_size),
      .modified_ns = int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec,
      .changed_ns = int64_t{status.st_ctim.tv_sec} * 1'000'000'000 + status.st_ctim.tv_nsec};
}

Result<uint64_t> File::size() const {
  struct stat status;
  if (::fstat(buffered_fd_, &status) != 0) return system_error(errno, "find the size", path_);
  switch (kind_) {
    case Kind::regular:
      // Relaxed: see raise_to().
      return grows_ahead_ ? end_.load(std::memory_order_relaxed)
                          : static_cast<uint64_t>(status.st_size);
    case Kind::block_device: {
      uint64_t bytes = 0;
      if (::ioctl(buffered_fd_, BLKGETSIZE64, &bytes) != 0) {
        return system_error(errno, "find the size", path_);
      }
      return bytes;
    }
    case Kind::stream:
      break;
  }
  return failure(ErrorCode::unsupported, "find the size of a stream", path_);
}

Status File::set_size(uint64_t bytes) {
  if (::ftruncate(buffered_fd_, static_cast<off_t>(bytes)) != 0) {
    return system_error(errno, fmt::format("set the size to {} bytes", bytes), path_);
  }
  // Relaxed: nobody else uses a file while its size is set.
  end_.store(bytes, std::memory_order_relaxed);
  grown_.store(bytes, std::memory_order_relaxed);
  return {};
}

// A direct write beyond the end of a file waits for all others, and all others for it: ext4 then
// writes one request at a time (0.9 GB/s, where eight in flight inside the file reach 1.9). So the
// file is made longer ahead of the writes, which costs no space on the disk, and gets its size back
// when it is published.
void File::will_write(uint64_t end) const {
  if (!grows_ahead_) return;
  raise_to(end_, end);
  if (end <= grown_.load(std::memory_order_relaxed)) return;  // relaxed: read again under the lock
  MutexLock lock(growing_);
  if (end <= grown_.load(std::memory_order_relaxed)) return;
  const uint64_t wanted = round_down(end, growth_bytes) + growth_bytes;
  const bool grown =
      wanted <= file_bytes_limit() && ::ftruncate(buffered_fd_, static_cast<off_t>(wanted)) == 0;
  grown_.store(grown ? wanted : end,
               std::memory_order_relaxed);  // where it cannot be, the write itself does it
}

size_t File::readable(uint64_t offset, size_t bytes) const {
  if (!grows_ahead_) return bytes;
  const uint64_t end = end_.load(std::memory_order_relaxed);  // relaxed: see raise_to()
  return offset >= end ? 0 : std::min<uint64_t>(bytes, end - offset);
}

Status File::preallocate(uint64_t bytes) {
  if (bytes == 0 || kind_ != Kind::regular) return {};
  while (::fallocate(buffered_fd_, 0, 0, static_cast<off_t>(bytes)) != 0) {
    if (errno == EINTR) continue;
    if (errno == EOPNOTSUPP || errno == ENOSYS) return {};
    return system_error(errno, fmt::format("reserve {} bytes on the disk", bytes), path_);
  }
  raise_to(end_, bytes);
  raise_to(grown_, bytes);
  return {};
}

Status File::discard(uint64_t offset, uint64_t bytes) {
  if (bytes == 0 || kind_ != Kind::regular) return {};
  while (::fallocate(buffered_fd_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                     static_cast<off_t>(offset), static_cast<off_t>(bytes)) != 0) {
    if (errno == EINTR) continue;
    if (errno == EOPNOTSUPP || errno == ENOSYS) return {};
    return system_error(errno, fmt::format("free {} bytes at offset {}", bytes, offset), path_);
  }
  return {};
}

Status File::sync() const {
  // Relaxed: the writes are complete, and who waited for them was told so by another thread's
  // release.
  if (const int error = write_error_.load(std::memory_order_relaxed))
    return system_error(error, "bring to the disk", path_);
  if (kind_ == Kind::stream || sync_data(buffered_fd_) == 0) return {};
  return system_error(errno, "bring to the disk", path_);
}

// linkat() replaces nothing, so an unnamed file gets a temporary name first. It is locked for that
// moment, so that no other run takes it for a dead one's.
Status File::link_under_temporary_name() {
  const std::string unnamed = descriptor_path(buffered_fd_);
  ::flock(buffered_fd_, LOCK_EX);
  for (;;) {
    std::string name = temporary_name(directory_of(final_));
    if (::linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      name_ = std::move(name);
      return {};
    }
    if (errno != EEXIST) return system_error(errno, "create", path_);
  }
}

// Its size and its rights.
Status File::finish_writing() {
  if (final_.empty()) return {};
  if (grows_ahead_) {
    if (auto cut = set_size(end_.load(std::memory_order_relaxed)); !cut)
      return cut;  // relaxed: see raise_to()
    grows_ahead_ = false;
  }
  struct stat replaced;
  if (::stat(final_.c_str(), &replaced) != 0) return {};
  // The owner first: changing it clears mode bits. Who may not change it keeps the new one.
  [[maybe_unused]] int kept = ::fchown(buffered_fd_, replaced.st_uid, replaced.st_gid);
  if (::fchmod(buffered_fd_, replaced.st_mode & 07777) != 0)
    return system_error(errno, "set the mode", path_);
  return {};
}

void File::start_write_back() const {
  if (syncs_ && kind_ != Kind::stream) note_write_back(SYNC_FILE_RANGE_WRITE);
}

Status File::write_back() const {
  if (const int error = write_error_.load(std::memory_order_relaxed))  // relaxed: as in sync()
    return system_error(error, "bring to the disk", path_);
  struct stat status;
  const bool disk = kind_ != Kind::stream || (::fstat(buffered_fd_, &status) == 0 &&
                                              S_ISBLK(status.st_mode));  // it is standard output
  if (syncs_ && disk) {
    if (sync_data(buffered_fd_) == 0) return {};
    return system_error(errno, "bring to the disk", path_);
  }
  // What a file system tells whoever closes a file, it tells for each of its descriptors.
  const int copy = ::fcntl(buffered_fd_, F_DUPFD_CLOEXEC, 3);
  if (copy < 0 || (close_written(copy) != 0 && errno != EINTR))
    return system_error(errno, "close", path_);
  return {};
}

// Beside its final name. Returns the name, or empty, and errno says why.
std::string File::keep_aside() {
  std::string kept;
  for (unsigned number = 0;; ++number) {
    kept = fmt::format("{}.new-{}-{}", final_, ::getpid(), number);
    const std::string from = name_.empty() ? descriptor_path(buffered_fd_) : name_;
    if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, kept.c_str(), AT_SYMLINK_FOLLOW) == 0) break;
    if (errno != EEXIST) return {};
  }
  if (!name_.empty()) ::unlink(name_.c_str());
  name_.clear();
  final_.clear();
  return kept;
}

Status File::keep_if_inputs_changed(std::span<File* const> files) {
  std::optional<std::string> changed;
  const File* replacing = nullptr;
  for (const File* file : files) {
    if (changed || !file->replaced_ || file->final_.empty()) continue;
    changed = file->replaced_->changed();
    replacing = file;
  }
  if (!changed) return {};
  Error error{ErrorCode::invalid_argument,
              fmt::format("replace an input: {} has changed since it was opened", *changed),
              replacing->path_};
  for (File* file : files) {
    if (file->final_.empty()) continue;
    const std::string kept = file->keep_aside();
    if (kept.empty())
      return system_error(errno, error.attempted + ", nor keep the new file", file->path_);
    error.hint += (error.hint.empty() ? "a look at what is new, kept as " : ", ") + kept;
  }
  return std::unexpected(std::move(error));
}

Status File::keep_if_inputs_changed() {
  File* const alone[] = {this};
  return keep_if_inputs_changed(alone);
}

Status File::give_final_name() {
  if (final_.empty()) return {};
  if (name_.empty()) {
    if (auto linked = link_under_temporary_name(); !linked) return linked;
  }
  if (rename_written(name_.c_str(), final_.c_str()) != 0)
    return system_error(errno, "create", path_);
  name_.clear();
  ::flock(buffered_fd_, LOCK_UN);
  return {};
}

Status File::publish() {
  File* const alone[] = {this};
  return publish_all(alone);
}

Status File::publish_all(std::span<File* const> files) {
  for (File* file : files) {
    if (auto finished = file->finish_writing(); !finished) return finished;
    if (files.size() > 1) file->start_write_back();
  }
  for (const File* file : files) {
    if (auto written = file->write_back(); !written) return written;
  }
  if (auto unchanged = keep_if_inputs_changed(files); !unchanged) return unchanged;
  std::map<std::string, const File*> folders;
  for (File* file : files) {
    if (auto named = file->give_final_name(); !named) return named;
    const std::string name = std::exchange(file->final_, {});
    if (!name.empty() && file->syncs_) folders.emplace(directory_of(name), file);
  }
  for (const auto& [folder, file] : folders) {
    auto synced = sync_directory(folder);
    // A folder that we may not read cannot be synced by itself, but with all of its file system.
    if (!synced && synced.error().system_errno == EACCES && ::syncfs(file->buffered_fd_) == 0)
      continue;
    if (!synced) return synced;
  }
  return {};
}

void File::keep_checks(size_t block_bytes) {
  checks_ = std::make_unique<BlockChecks>(block_bytes);
}

bool File::continues_at(uint64_t offset, uint64_t bytes) const {
  // Relaxed: a statistic.
  return next_offset_.exchange(offset + bytes, std::memory_order_relaxed) == offset;
}

// Writes through the page cache are sent on to the disk every dirty_bytes_max, after waiting for
// those sent the time before; what is clean leaves the cache. So at most two such windows are
// dirty, and none of it comes out of the memory budget.
void File::wrote_buffered(uint64_t bytes) const {
  if (kind_ == Kind::stream) return;
  // Relaxed: whichever thread crosses the threshold does the work, no data are handed over.
  if (buffered_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes < dirty_bytes_max) return;
  buffered_bytes_.store(0, std::memory_order_relaxed);
  note_write_back(SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE);
  ::posix_fadvise(buffered_fd_, 0, 0, POSIX_FADV_DONTNEED);
}

// To wait takes the descriptor's write-back error away, and the next fdatasync() says that all is
// well: so it is kept. Other errors say that the call itself is not known here.
void File::note_write_back(unsigned how) const {
  if (::sync_file_range(buffered_fd_, 0, 0, how) != 0 &&
      (errno == EIO || errno == ENOSPC || errno == EDQUOT))
    write_error_.store(errno, std::memory_order_relaxed);  // relaxed: as in sync()
}

std::optional<int> output_descriptor(const std::string& path) {
  if (path == "-") return STDOUT_FILENO;
  const auto followed = follow_links(path);
  return followed ? followed->descriptor : std::nullopt;
}

bool names_a_file(const std::string& output) {
  const auto target = resolve_output(output);
  return !target || target->is_file();  // opening it tells what is wrong
}

Result<Space> space_of(const std::string& directory) {
  struct statvfs system;
  struct stat status;
  if (::statvfs(directory.c_str(), &system) != 0 || ::stat(directory.c_str(), &status) != 0) {
    const int error = errno;
    if (error == ENOENT)
      return system_error(error, "use this directory", directory, "create it first");
    if (error == ENOTDIR)
      return system_error(error, "use this directory", directory, "a directory");
    return system_error(error, "find the free space", directory);
  }
  return Space{uint64_t{system.f_bavail} * system.f_frsize, status.st_dev};
}

Status make_private_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return system_error(errno, "create", path, "another directory");
  struct stat status;
  if (::lstat(path.c_str(), &status) != 0) return system_error(errno, "look at", path);
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & 077) != 0) {
    return failure(ErrorCode::permission, "use what is not this user's own, private directory",
                   path, "remove it");
  }
  return {};
}

Status sync_directory(const std::string& directory) {
  const os::Fd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return system_error(errno, "open", directory);
  // EINVAL: a file system that has nothing to bring to a disk.
  if (sync_folder(fd.get()) == 0 || errno == EINVAL) return {};
  return system_error(errno, "bring to the disk", directory);
}

size_t remove_stale_temporaries(const std::string& directory) {
  std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(directory.c_str()), &::closedir);
  if (!entries) return 0;
  size_t removed = 0;
  while (dirent* entry = ::readdir(entries.get())) {
    if (!is_temporary_name(entry->d_name)) continue;
    std::string name = fmt::format("{}/{}", directory, entry->d_name);
    const os::Fd fd(::open(name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    struct stat status;
    const bool regular = fd && ::fstat(fd.get(), &status) == 0 && S_ISREG(status.st_mode);
    if (regular && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0 && names(name, fd.get())) {
      if (::unlink(name.c_str()) == 0) ++removed;
    }
  }
  return removed;
}

}  // namespace penstock::file
