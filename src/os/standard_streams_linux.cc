#include <fcntl.h>
#include <unistd.h>

#include <initializer_list>

#include "os/standard_streams.h"

namespace penstock::os {

void occupy_standard_streams() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest free descriptor: this one, since those below are taken.
    (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

}  // namespace penstock::os
