#include "io/peek.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

#include "io/names.h"
#include "os/fd.h"

namespace penstock::io {
namespace {

Status read_at(int fd, const std::string& path, off_t offset, size_t bytes_max,
               std::string& bytes) {
  for (ssize_t read = 1; read > 0 && bytes.size() < bytes_max;) {
    const size_t have = bytes.size();
    // Zeros for a short file's missing bytes would take longer than the read.
    bytes.resize_and_overwrite(bytes_max, [&](char* data, size_t) {
      read = os::retried([&] {
        return ::pread(fd, data + have, bytes_max - have, offset + static_cast<off_t>(have));
      });
      return have + static_cast<size_t>(std::max<ssize_t>(read, 0));
    });
    if (read < 0) return system_error(errno, "read", path);
  }
  return {};
}

// Reads a file from `offset` on: as much as is likely enough, then all that is allowed.
Result<std::optional<Peek>> peek_at_file(int fd, const std::string& path, off_t offset,
                                         off_t file_bytes, const PeekOptions& options) {
  constexpr size_t likely_bytes = 256 * KiB;
  Peek seen{.is_file = true};
  const auto tail_bytes = static_cast<off_t>(options.tail_bytes);
  if (tail_bytes > 0) {
    const Status read =
        read_at(fd, path, std::max(offset, file_bytes - tail_bytes), options.tail_bytes, seen.tail);
    if (!read) return std::unexpected(read.error());
  }
  for (size_t wanted = std::min(likely_bytes, options.bytes_max);; wanted = options.bytes_max) {
    const Status read = read_at(fd, path, offset, wanted, seen.bytes);
    if (!read) return std::unexpected(read.error());
    seen.is_all = seen.bytes.size() < wanted;
    if (seen.is_all || wanted == options.bytes_max || !options.enough || options.enough(seen))
      return seen;
  }
}

// The present contents of a pipe or a socket, which stay there.
class Contents {
 public:
  explicit Contents(int fd) : fd_(fd) {}

  // Returns false, with errno, if the system refuses.
  bool open(bool is_socket, size_t bytes_max) {
    bytes_max_ = bytes_max;
    if (is_socket) return true;
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return false;
    from_ = os::Fd(ends[0]);
    to_ = os::Fd(ends[1]);
    // Without more room, less is seen.
    (void)::fcntl(to_.get(), F_SETPIPE_SZ, static_cast<int>(bytes_max));
    return true;
  }

  // Returns false, with errno, if the system refuses.
  bool read(std::string& bytes) {
    bytes.resize(bytes_max_);
    const ssize_t have = os::retried([&] {
      return from_ ? ::tee(fd_, to_.get(), bytes_max_, SPLICE_F_NONBLOCK)
                   : ::recv(fd_, bytes.data(), bytes_max_, MSG_PEEK | MSG_DONTWAIT);
    });
    bytes.resize(static_cast<size_t>(std::max<ssize_t>(have, 0)));
    if (have < 0 && errno == EAGAIN) return true;
    for (size_t at = 0; from_ && at < bytes.size();) {
      const ssize_t moved =
          os::retried([&] { return ::read(from_.get(), bytes.data() + at, bytes.size() - at); });
      if (moved <= 0) return false;
      at += static_cast<size_t>(moved);
    }
    return have >= 0;
  }

  // Returns whether no more can come than the bytes that are there.
  bool has_ended() const {
    pollfd look{.fd = fd_, .events = POLLIN | POLLRDHUP, .revents = 0};
    return ::poll(&look, 1, 0) > 0 && (look.revents & (POLLHUP | POLLRDHUP)) != 0;
  }
  size_t bytes_there() const {
    int bytes = 0;
    return ::ioctl(fd_, FIONREAD, &bytes) == 0 ? static_cast<size_t>(bytes) : SIZE_MAX;
  }

 private:
  int fd_;
  size_t bytes_max_ = 0;
  os::Fd from_, to_;  // the pipe that gets the copies of a pipe's bytes
};

bool is_cancelled(const PeekOptions& options) {
  // Relaxed: the flag publishes no other data.
  return options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed);
}

// Waits for a byte or the end of a pipe, as the options say. Returns false if there is none.
bool wait_for_byte(int fd, const PeekOptions& options) {
  constexpr int look_ms = 100;
  const bool waits = options.wait != Wait::none;
  for (pollfd arrival{.fd = fd, .events = POLLIN, .revents = 0};;) {
    const int arrived = ::poll(&arrival, 1, waits ? look_ms : 0);
    if (arrived > 0) return true;
    if (arrived < 0 && errno != EINTR) return true;  // the look itself says what is wrong
    if (!waits || is_cancelled(options)) return false;
  }
}

Result<std::optional<Peek>> peek_at_pipe(int fd, bool is_socket, const std::string& path,
                                         const PeekOptions& options) {
  using Clock = std::chrono::steady_clock;
  constexpr auto between_looks = std::chrono::milliseconds(1);
  constexpr auto patience = std::chrono::seconds(10);
  Peek seen;
  if (!wait_for_byte(fd, options)) return seen;
  // A process without rights may make no larger pipe.
  const size_t bytes_max = std::min<size_t>(options.bytes_max, MiB);
  Contents contents(fd);
  if (!contents.open(is_socket, bytes_max)) return system_error(errno, "read", path);
  for (auto grew = Clock::now();;) {
    const bool has_ended = contents.has_ended();  // before the look, which then sees all
    const size_t before = seen.bytes.size();
    if (!contents.read(seen.bytes)) {
      if (before == 0 && (errno == EINVAL || errno == ENOTCONN)) return std::nullopt;
      return system_error(errno, "read", path);
    }
    seen.is_all = has_ended && contents.bytes_there() <= seen.bytes.size();
    if (seen.is_all || seen.bytes.size() >= bytes_max || is_cancelled(options)) return seen;
    const bool is_enough =
        options.wait == Wait::enough ? options.enough(seen) : !seen.bytes.empty();
    if (is_enough) return seen;
    if (seen.bytes.size() > before) {
      grew = Clock::now();
      // A pipe of the usual size may be full of what is not enough.
      if (!is_socket) (void)::fcntl(fd, F_SETPIPE_SZ, static_cast<int>(bytes_max));
    }
    if (Clock::now() - grew > patience) return seen;
    std::this_thread::sleep_for(between_looks);
  }
}

bool is_null_device(const struct stat& status) {
  return S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3);
}

}  // namespace

Result<std::optional<Peek>> peek(const std::string& path, const PeekOptions& options) {
  std::optional<int> descriptor;
  if (path == "-") {
    descriptor = STDIN_FILENO;
  } else if (const auto end = follow_links(path); end) {
    descriptor = end->descriptor;
  }
  os::Fd opened;
  struct stat status;
  if (!descriptor) {
    const bool exists = ::stat(path.c_str(), &status) == 0;
    if (exists && is_null_device(status)) return Peek{.is_all = true, .is_file = true};
    // A named pipe would lose its writer.
    if (exists && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) return std::nullopt;
    opened = os::Fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!opened) return system_error(errno, "open", path);
  }
  const int fd = descriptor ? *descriptor : opened.get();
  if (::fstat(fd, &status) != 0) return system_error(errno, "open", path);
  if (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode))
    return peek_at_pipe(fd, S_ISSOCK(status.st_mode), path, options);
  if (S_ISDIR(status.st_mode)) return system_error(EISDIR, "open", path);
  if (is_null_device(status)) return Peek{.is_all = true, .is_file = true};
  if (!S_ISREG(status.st_mode)) return std::nullopt;
  const off_t offset = path == "-" ? std::max<off_t>(::lseek(fd, 0, SEEK_CUR), 0) : 0;
  return peek_at_file(fd, path, offset, status.st_size, options);
}

Peek peek_if_possible(const std::string& path, const PeekOptions& options) {
  auto seen = peek(path, options);
  return seen && *seen ? std::move(**seen) : Peek();
}

}  // namespace penstock::io
