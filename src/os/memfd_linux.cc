#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "os/memfd.h"

namespace penstock::os {

Result<MemoryFile> MemoryFile::create(uint64_t bytes, Pages pages) {
  const unsigned huge_flags = pages == Pages::hugetlb ? MFD_HUGETLB | MFD_HUGE_2MB : 0u;
  MemoryFile file;
  file.fd_ = memfd_create("penstock", MFD_CLOEXEC | huge_flags);
  if (file.fd_ < 0) return system_error(errno, "create a file in memory", "memfd");
  if (ftruncate(file.fd_, static_cast<off_t>(bytes)) != 0)
    return system_error(errno, "size a file in memory to " + std::to_string(bytes) + " bytes",
                        "memfd");
  return file;
}

MemoryFile& MemoryFile::operator=(MemoryFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

MemoryFile::~MemoryFile() {
  if (fd_ >= 0) close(fd_);
}

int MemoryFile::map(std::byte* address, size_t bytes, uint64_t offset,
                    bool populate) const noexcept {
  const int saved_errno = errno;
  const int flags = MAP_SHARED | MAP_FIXED | (populate ? MAP_POPULATE : 0);
  void* mapped =
      mmap(address, bytes, PROT_READ | PROT_WRITE, flags, fd_, static_cast<off_t>(offset));
  const int error = mapped == MAP_FAILED ? errno : 0;
  errno = saved_errno;
  return error;
}

int discard_file_pages(std::byte* address, size_t bytes) noexcept {
  const int saved_errno = errno;
  const int error = madvise(address, bytes, MADV_REMOVE) == 0 ? 0 : errno;
  errno = saved_errno;
  return error;
}

}  // namespace penstock::os
