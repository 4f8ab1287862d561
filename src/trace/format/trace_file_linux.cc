#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "files/source/checked_read.h"
#include "io/names.h"
#include "trace/format/trace_file.h"

namespace penstock::trace {

namespace {

Status check_is_no_device(const std::string& path) {
  struct stat there;
  if (::stat(path.c_str(), &there) != 0 || !S_ISBLK(there.st_mode)) return {};
  return failure(ErrorCode::permission, "write a trace over a device", path, "a file");
}

}  // namespace

Result<TraceFile> TraceFile::create(const std::string& path) {
  if (path == "-") return TraceFile(STDOUT_FILENO, false, "standard output");
  if (Status may = check_is_no_device(path); !may) return std::unexpected(may.error());
  // A trace contains its user's file names, so nobody else may read it.
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return system_error(errno, "create", path);
  return TraceFile(fd, true, path);
}

Result<TraceFile> TraceFile::create_whole(const std::string& path) {
  if (Status may = check_is_no_device(path); !may) return std::unexpected(may.error());
  auto file = io::File::create_output(path, io::Caching::buffered);
  if (!file) return std::unexpected(file.error());
  TraceFile made(file->buffered_descriptor(), false, path == "-" ? "standard output" : path);
  made.whole_ = std::move(*file);
  return made;
}

Result<TraceFile> TraceFile::open(const std::string& path) {
  auto source = open_source(path);
  if (!source) return std::unexpected(source.error());
  TraceFile opened(-1, false, io::shown_input(path));
  opened.source_ = std::move(*source);
  return opened;
}

TraceFile& TraceFile::operator=(TraceFile&& other) noexcept {
  if (this != &other) {
    discard();
    source_ = std::move(other.source_);
    fd_ = std::exchange(other.fd_, -1);
    owned_ = other.owned_;
    whole_ = std::move(other.whole_);
    path_ = std::move(other.path_);
    peeked_ = std::move(other.peeked_);
  }
  return *this;
}

Status TraceFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error(errno, "write the trace", path_);
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return {};
}

Result<size_t> TraceFile::read(std::span<std::byte> into) {
  size_t done = std::min(into.size(), peeked_.size());
  if (done > 0) {
    std::copy_n(peeked_.begin(), done, into.begin());
    peeked_.erase(peeked_.begin(), peeked_.begin() + static_cast<ptrdiff_t>(done));
  }
  while (done < into.size()) {
    auto got = source::checked_read(*source_, into.subspan(done));
    if (!got) return got;
    if (*got == 0) break;
    done += *got;
  }
  return done;
}

Result<std::span<const std::byte>> TraceFile::peek(size_t bytes) {
  std::vector<std::byte> first(bytes);
  auto got = read(first);
  if (!got) return std::unexpected(got.error());
  first.resize(*got);
  peeked_ = std::move(first);
  return std::span<const std::byte>(peeked_);
}

Status TraceFile::close() {
  const int fd = std::exchange(fd_, -1);
  if (fd >= 0 && whole_.descriptor() >= 0) {
    const Status published = whole_.publish();
    whole_ = {};
    return published;
  }
  if (fd < 0 || !owned_) return {};
  if (::close(fd) != 0 && errno != EINTR) return system_error(errno, "close the trace", path_);
  return {};
}

void TraceFile::discard() {
  if (fd_ >= 0 && owned_) ::close(fd_);
  fd_ = -1;
  whole_ = {};
}

bool is_standard_output(const std::string& path) {
  if (path == "-") return true;
  struct stat ours = {}, other = {};
  if (::fstat(STDOUT_FILENO, &ours) != 0 || ::stat(path.c_str(), &other) != 0) return false;
  // Two may write to one terminal or to /dev/null.
  return ours.st_dev == other.st_dev && ours.st_ino == other.st_ino && !S_ISCHR(ours.st_mode);
}

}  // namespace penstock::trace
