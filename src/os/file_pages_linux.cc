#include <sys/mman.h>

#include <cerrno>

#include "base/keep_errno.h"
#include "os/file_pages.h"
#include "os/memory.h"

namespace penstock::os {

int show_file(int fd, uint64_t offset, std::byte* to, size_t bytes) noexcept {
  const KeepErrno keep;
  if (::mmap(to, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, fd,
             static_cast<off_t>(offset)) == MAP_FAILED)
    return errno;
  return exclude_from_fork(to, bytes);
}

}  // namespace penstock::os
