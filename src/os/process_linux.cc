#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "os/process.h"

namespace penstock::os {
namespace {

// Field 22 of /proc/PID/stat, counted behind the name, which may hold spaces and parentheses; 0
// when there is no such process. Allocates nothing.
uint64_t start_ticks_of(int32_t pid) noexcept {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[1024];
  const ssize_t bytes = read(fd, text, sizeof text - 1);
  close(fd);
  if (bytes <= 0) return 0;
  text[bytes] = 0;
  const char* field = std::strrchr(text, ')');
  for (int number = 2; field != nullptr && number < 22; ++number) {
    field = std::strchr(field + 1, ' ');
  }
  return field == nullptr ? 0 : std::strtoull(field, nullptr, 10);
}

}  // namespace

Result<ProcessId> ProcessId::self() {
  const ProcessId self{getpid(), start_ticks_of(getpid())};
  if (self.start_ticks == 0)
    return failure(ErrorCode::unsupported, "find out when this process began", "/proc/self/stat",
                   "/proc must be mounted");
  return self;
}

int ProcessWatch::watch(const ProcessId& process) noexcept {
  const int saved_errno = errno;
  int error = 0;
  fd_ = static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0));
  if (fd_ < 0) {
    error = errno;
  } else if (start_ticks_of(process.pid) != process.start_ticks) {
    // The descriptor is bound to whatever has that number now, and that is somebody else.
    close(std::exchange(fd_, -1));
    error = ESRCH;
  }
  errno = saved_errno;
  return error;
}

ProcessWatch& ProcessWatch::operator=(ProcessWatch&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

ProcessWatch::~ProcessWatch() {
  if (fd_ >= 0) close(fd_);
}

bool ProcessWatch::is_running() const noexcept {
  const int saved_errno = errno;
  pollfd entry = {.fd = fd_, .events = POLLIN, .revents = 0};
  const bool ended = poll(&entry, 1, 0) > 0;
  errno = saved_errno;
  return !ended;
}

}  // namespace penstock::os
