#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "os/process_end.h"

namespace penstock::os {

Result<ProcessEnd> ProcessEnd::of(int32_t pid) {
  const long fd = syscall(SYS_pidfd_open, pid, 0);
  if (fd >= 0) return ProcessEnd(static_cast<int>(fd));
  const std::string subject = "process " + std::to_string(pid);
  if (errno == ESRCH)
    return failure(ErrorCode::not_found, "watch for its end: there is no such process", subject);
  return system_error(errno, "watch for its end", subject);
}

ProcessEnd& ProcessEnd::operator=(ProcessEnd&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

ProcessEnd::~ProcessEnd() {
  if (fd_ >= 0) close(fd_);
}

void ProcessEnd::wait() const noexcept {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pollfd entry = {.fd = fd_, .events = POLLIN, .revents = 0};
  while (poll(&entry, 1, -1) <= 0) {
  }
}

}  // namespace penstock::os
