#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <initializer_list>

#include "os/fd.h"
#include "os/standard_streams.h"

namespace penstock::os {
namespace {

// Returns the number of bytes written; fewer than `bytes` if the write failed.
ssize_t write_all(void*, const char* data, size_t bytes) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t wrote =
        retried([&] { return ::write(STDOUT_FILENO, data + done, bytes - done); });
    if (wrote <= 0) break;
    done += static_cast<size_t>(wrote);
  }
  return static_cast<ssize_t>(done);
}

}  // namespace

void occupy_standard_streams() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // open() takes the lowest free descriptor: this one, since those below are taken.
    (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

void write_on_after_signals(std::FILE*& standard_output) {
  std::FILE* const stream = ::fopencookie(
      nullptr, "w", {.write = write_all, .close = [](void*) { return ::close(STDOUT_FILENO); }});
  if (stream == nullptr) return;
  if (::isatty(STDOUT_FILENO) != 0) (void)std::setvbuf(stream, nullptr, _IOLBF, BUFSIZ);
  standard_output = stream;
}

size_t output_columns() {
  winsize size = {};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace penstock::os
