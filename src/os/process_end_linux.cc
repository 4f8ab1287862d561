#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "os/process_end.h"

namespace penstock::os {

Result<ProcessEnd> ProcessEnd::of(int32_t pid) {
  Fd fd(syscall(SYS_pidfd_open, pid, 0));
  if (fd) return ProcessEnd(std::move(fd));
  const std::string subject = "process " + std::to_string(pid);
  if (errno == ESRCH)
    return failure(ErrorCode::not_found, "watch for its end: there is no such process", subject);
  return system_error(errno, "watch for its end", subject);
}

void ProcessEnd::wait() const noexcept {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pollfd entry = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
  while (poll(&entry, 1, -1) <= 0) {
  }
}

}  // namespace penstock::os
