#include "io/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>

#include "base/bits.h"
#include "base/check.h"
#include "base/raise_to.h"
#include "io/block_checks.h"
#include "io/names.h"
#include "io/outlet.h"
#include "io/system_calls.h"
#include "os/fd.h"
#include "penstock/base.h"

namespace penstock::io {

namespace {

// Dirty bytes of a file in the page cache from which on the engine's writers wait for the disk.
constexpr uint64_t dirty_bytes_max = 32 * MiB;

// Step by which a file that we write directly grows ahead of the writes.
constexpr uint64_t growth_bytes = GiB;

uint64_t file_bytes_limit() {
  rlimit limit;
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 ? limit.rlim_cur : 0;
}

}  // namespace

File::File() = default;

File::File(int fd, std::string path, Kind kind)
    : fd_(fd), buffered_fd_(fd), kind_(kind), path_(std::move(path)) {}

File File::of_source(std::shared_ptr<Source> source, std::string name) {
  File file(-1, std::move(name), Kind::stream);
  file.source_ = std::move(source);
  return file;
}

File File::of_sink(std::shared_ptr<Sink> sink, std::string name) {
  File file(-1, std::move(name), Kind::stream);
  file.outlet_ = os::LeftToParent<Outlet>(std::make_unique<Outlet>(std::move(sink)));
  return file;
}

void File::cancel_writes() const {
  if (outlet_.get() != nullptr) outlet_->cancel();
}

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
  source_ = std::move(other.source_);
  outlet_ = std::move(other.outlet_);
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
  if (kind_ != Kind::stream && ::fstat(buffered_fd_, &status) != 0)
    return system_error(errno, "find the size", path_);
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
// writes one request at a time (0.9 GB/s, but 1.9 with eight in flight inside the file). So the
// file grows ahead of the writes, which costs no disk space, and publishing restores its size.
void File::will_write(uint64_t end) const {
  if (!grows_ahead_) return;
  raise_to(end_, end);
  if (end <= grown_.load(std::memory_order_relaxed)) return;  // relaxed: read again under the lock
  MutexLock lock(growing_);
  if (end <= grown_.load(std::memory_order_relaxed)) return;
  const uint64_t wanted = round_down(end, growth_bytes) + growth_bytes;
  const bool grown =
      wanted <= file_bytes_limit() && ::ftruncate(buffered_fd_, static_cast<off_t>(wanted)) == 0;
  // If this fails, the write itself makes the file longer.
  grown_.store(grown ? wanted : end, std::memory_order_relaxed);
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
  // Relaxed: the writes are complete, and their waiter learned that by another thread's release.
  if (const int error = write_error_.load(std::memory_order_relaxed))
    return system_error(error, "bring to the disk", path_);
  if (kind_ == Kind::stream || sync_data(buffered_fd_) == 0) return {};
  return system_error(errno, "bring to the disk", path_);
}

void File::start_write_back() const {
  if (syncs_ && kind_ != Kind::stream) note_write_back(SYNC_FILE_RANGE_WRITE);
}

Status File::write_back() const {
  if (const int error = write_error_.load(std::memory_order_relaxed))  // relaxed: as in sync()
    return system_error(error, "bring to the disk", path_);
  if (outlet_.get() != nullptr) {
    if (Status closed = outlet_->close(); !closed || fd_ < 0) return closed;
  }
  struct stat status;
  const bool disk = kind_ != Kind::stream || (::fstat(buffered_fd_, &status) == 0 &&
                                              S_ISBLK(status.st_mode));  // standard output
  if (syncs_ && disk) {
    if (sync_data(buffered_fd_) == 0) return {};
    return system_error(errno, "bring to the disk", path_);
  }
  // A file system reports errors of closing a file for each of its descriptors.
  const int copy = ::fcntl(buffered_fd_, F_DUPFD_CLOEXEC, 3);
  if (copy < 0 || (close_written(copy) != 0 && errno != EINTR))
    return system_error(errno, "close", path_);
  return {};
}

void File::keep_checks(size_t block_bytes) {
  checks_ = std::make_unique<BlockChecks>(block_bytes);
}

bool File::continues_at(uint64_t offset, uint64_t bytes) const {
  // Relaxed: a statistic.
  return next_offset_.exchange(offset + bytes, std::memory_order_relaxed) == offset;
}

// Sends writes through the page cache on to the disk every dirty_bytes_max, after waiting for the
// ones before; clean pages leave the cache. So at most two such windows are dirty, and none of it
// comes out of the memory budget.
void File::wrote_buffered(uint64_t bytes) const {
  if (kind_ == Kind::stream) return;
  // Relaxed: whichever thread crosses the threshold does the work, no data are handed over.
  if (buffered_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes < dirty_bytes_max) return;
  buffered_bytes_.store(0, std::memory_order_relaxed);
  note_write_back(SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE);
  ::posix_fadvise(buffered_fd_, 0, 0, POSIX_FADV_DONTNEED);
}

// Waiting consumes the descriptor's write-back error, and the next fdatasync() succeeds: so the
// error is kept. Other errors mean that the call itself is not supported here.
void File::note_write_back(unsigned how) const {
  if (::sync_file_range(buffered_fd_, 0, 0, how) != 0 &&
      (errno == EIO || errno == ENOSPC || errno == EDQUOT))
    write_error_.store(errno, std::memory_order_relaxed);  // relaxed: as in sync()
}

namespace {

// `answer` is the result of statvfs(), which a sandbox may refuse.
Space space_from(int answer, const struct statvfs& system, const struct stat& status) {
  return {answer == 0 ? uint64_t{system.f_bavail} * system.f_frsize : unknown_free_bytes,
          status.st_dev};
}

}  // namespace

Result<Space> space_of(const std::string& directory) {
  struct statvfs system;
  struct stat status;
  if (::stat(directory.c_str(), &status) != 0) {
    const int error = errno;
    if (error == ENOENT)
      return system_error(error, "use this directory", directory, "create it first");
    if (error == ENOTDIR)
      return system_error(error, "use this directory", directory, "a directory");
    return system_error(error, "find the free space", directory);
  }
  return space_from(::statvfs(directory.c_str(), &system), system, status);
}

Result<Space> space_of(const File& file) {
  struct statvfs system;
  struct stat status;
  if (::fstat(file.descriptor(), &status) != 0)
    return system_error(errno, "find the free space", file.path());
  return space_from(::fstatvfs(file.descriptor(), &system), system, status);
}

Status make_private_directory(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    return system_error(errno, "create", path, "another directory");
  struct stat status;
  if (::lstat(path.c_str(), &status) != 0) return system_error(errno, "look at", path);
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & 077) != 0) {
    return failure(ErrorCode::permission, "use a directory that is not private to this user", path,
                   "remove it");
  }
  return {};
}

Status sync_directory(const std::string& directory) {
  const os::Fd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd) return system_error(errno, "open", directory);
  // EINVAL: a file system without a disk.
  if (sync_folder(fd.get()) == 0 || errno == EINVAL) return {};
  return system_error(errno, "bring to the disk", directory);
}

}  // namespace penstock::io
