#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/keep_errno.h"
#include "os/process.h"

namespace penstock::os {
namespace {

// Returns field 22 of /proc/PID/stat, counted behind the name, which may contain spaces and
// parentheses; 0, and errno, if it cannot be read. Allocates nothing.
uint64_t start_ticks_of(int32_t pid) noexcept {
  char path[32];
  std::snprintf(path, sizeof path, "/proc/%d/stat", pid);
  const Fd fd(open(path, O_RDONLY | O_CLOEXEC));
  if (!fd) return 0;
  char text[1024];
  const ssize_t bytes = retried([&] { return read(fd.get(), text, sizeof text - 1); });
  if (bytes >= 0) errno = EIO;
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
    return system_error(errno, "find out when this process began", "/proc/self/stat",
                        "/proc must be mounted, and a descriptor be free (ulimit -n)");
  return self;
}

Status keep_memory_out_of_core_dumps() {
  const Fd fd(open("/proc/self/coredump_filter", O_WRONLY | O_CLOEXEC));
  if (!fd || write(fd.get(), "0", 1) != 1)
    return system_error(errno, "keep memory out of core dumps", "/proc/self/coredump_filter",
                        "ulimit -c 0");
  return {};
}

int ProcessWatch::watch(const ProcessId& process) noexcept {
  const KeepErrno keep;
  int error = 0;
  fd_ = Fd(syscall(SYS_pidfd_open, process.pid, 0));
  process_ = process;
  verified_ = false;
  if (!fd_) {
    error = errno;
  } else if (is_other()) {
    fd_.reset();
    error = ESRCH;
  }
  return error;
}

// Returns whether the descriptor is bound to another process, which had the number when it was
// opened. If the start time cannot be read, the next call tries again.
bool ProcessWatch::is_other() noexcept {
  if (verified_) return false;
  const uint64_t start_ticks = start_ticks_of(process_.pid);
  verified_ = start_ticks == process_.start_ticks;
  return start_ticks != 0 && !verified_;
}

bool ProcessWatch::is_running() noexcept {
  const KeepErrno keep;
  pollfd entry = {.fd = fd_.get(), .events = POLLIN, .revents = 0};
  const bool ended = poll(&entry, 1, 0) > 0 || is_other();
  return !ended;
}

}  // namespace penstock::os
