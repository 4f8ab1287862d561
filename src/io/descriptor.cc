#include "io/descriptor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "io/system_calls.h"

namespace penstock::io {

namespace {

bool try_again(int error) {
  return error == EINTR || error == EAGAIN || error == EWOULDBLOCK;
}

constexpr int look_every_ms = 50;

}  // namespace

Result<Descriptor> Descriptor::duplicate(int fd, std::string name, std::optional<uint64_t> offset) {
  struct stat status;
  if (::fstat(fd, &status) != 0) return system_error(errno, "use", std::move(name));
  const Kind kind = S_ISSOCK(status.st_mode)                             ? Kind::socket
                    : S_ISREG(status.st_mode) || S_ISBLK(status.st_mode) ? Kind::file
                                                                         : Kind::other;
  os::Fd copy(::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!copy) return system_error(errno, "duplicate the descriptor of", std::move(name));
  auto interrupted = os::Event::create();
  if (!interrupted) return std::unexpected(interrupted.error());
  Descriptor made(std::move(copy), std::move(*interrupted), kind, std::move(name));
  made.begin_ = offset;
  return made;
}

Descriptor::Descriptor(os::Fd fd, os::Event interrupted, Kind kind, std::string name)
    : fd_(std::move(fd)),
      interrupted_(std::move(interrupted)),
      kind_(kind),
      name_(std::move(name)) {}

void Descriptor::interrupt() noexcept {
  interrupted_.raise();
}

bool Descriptor::wait(short events) noexcept {
  std::array<pollfd, 2> both = {pollfd{fd_.get(), events, 0}, pollfd{interrupted_.fd(), POLLIN, 0}};
  for (;;) {
    // Relaxed: the flag hands over no data.
    if (cancel_ != nullptr && cancel_->load(std::memory_order_relaxed)) return false;
    const int ready = ::poll(both.data(), both.size(), cancel_ != nullptr ? look_every_ms : -1);
    if (ready > 0 || (ready < 0 && !try_again(errno))) return both[1].revents == 0;
  }
}

Result<size_t> Descriptor::read(std::span<std::byte> into) {
  for (;;) {
    if (!wait(POLLIN)) return cancelled("read");
    const int64_t got = read_some(fd_.get(), begin_ ? *begin_ + offset_ : stream_position, into);
    if (got >= 0) {
      offset_ += static_cast<uint64_t>(got);
      return static_cast<size_t>(got);
    }
    errno = static_cast<int>(-got);
    if (!try_again(errno)) return failed("read");
  }
}

Status Descriptor::write(std::span<const std::byte> from) {
  while (!from.empty()) {
    if (!wait(POLLOUT)) return cancelled("write");
    const int64_t put = write_some(from);
    if (put < 0 && !try_again(errno)) return failed("write");
    if (put < 0) continue;
    offset_ += static_cast<uint64_t>(put);
    from = from.subspan(static_cast<size_t>(put));
  }
  return {};
}

// poll() reports room, not how much: a blocking pipe would wait for the rest of a large write. If
// it cannot be told not to wait, PIPE_BUF bytes are what a writable pipe takes.
int64_t Descriptor::write_some(std::span<const std::byte> from) noexcept {
  const int64_t allowed = disturbed_write(from.size());
  if (allowed < 0) {
    errno = static_cast<int>(-allowed);
    return -1;
  }
  from = from.first(static_cast<size_t>(allowed));
  if (kind_ == Kind::file) return ::write(fd_.get(), from.data(), from.size());
  if (kind_ == Kind::socket) {
    return ::send(fd_.get(), from.data(), from.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }
  if (may_refuse_to_wait_) {
    const iovec piece{const_cast<std::byte*>(from.data()), from.size()};
    const ssize_t put = ::pwritev2(fd_.get(), &piece, 1, -1, RWF_NOWAIT);
    if (put >= 0 || (errno != EOPNOTSUPP && errno != ENOSYS)) return put;
    may_refuse_to_wait_ = false;
  }
  return ::write(fd_.get(), from.data(), std::min<size_t>(from.size(), PIPE_BUF));
}

std::unexpected<Error> Descriptor::cancelled(const char* attempted) const {
  return failure(ErrorCode::cancelled, fmt::format("{} on at offset {}", attempted, offset_),
                 name_);
}

std::unexpected<Error> Descriptor::failed(const char* attempted) const {
  return system_error(errno, fmt::format("{} at offset {}", attempted, offset_), name_);
}

}  // namespace penstock::io
