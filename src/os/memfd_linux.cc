#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "base/keep_errno.h"
#include "os/memfd.h"

namespace penstock::os {

namespace {
constexpr int size_seals = F_SEAL_SHRINK | F_SEAL_GROW;
// Relaxed everywhere: it hands over no data.
std::atomic<uint64_t> all_bytes{0};
}  // namespace

uint64_t memory_file_bytes() noexcept {
  return all_bytes.load(std::memory_order_relaxed);
}

Result<MemoryFile> MemoryFile::create(uint64_t bytes, Pages pages) {
  const unsigned huge_flags = pages == Pages::hugetlb ? MFD_HUGETLB | MFD_HUGE_2MB : 0u;
  MemoryFile file;
  file.made_ = Generation::now();
  file.fd_ = Fd(memfd_create("penstock", MFD_CLOEXEC | MFD_ALLOW_SEALING | huge_flags));
  if (!file.fd_) return system_error(errno, "create a file in memory", "memfd");
  if (ftruncate(file.fd(), static_cast<off_t>(bytes)) != 0)
    return system_error(errno, "size a file in memory to " + std::to_string(bytes) + " bytes",
                        "memfd");
  file.count();
  return file;
}

Result<MemoryFile> MemoryFile::adopt(int fd) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) return system_error(errno, "share a file in memory", "memfd");
  if ((seals & size_seals) != size_seals) {
    return failure(ErrorCode::invalid_argument, "share a file in memory whose size is not sealed",
                   "memfd");
  }
  MemoryFile file;
  file.made_ = Generation::now();
  file.fd_ = Fd(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!file.fd_) return system_error(errno, "share a file in memory", "memfd");
  file.count();
  return file;
}

void MemoryFile::count() {
  counted_bytes_ = bytes();
  all_bytes.fetch_add(counted_bytes_, std::memory_order_relaxed);
}

uint64_t MemoryFile::bytes() const {
  struct stat status = {};
  return fstat(fd(), &status) == 0 ? static_cast<uint64_t>(status.st_size) : 0;
}

Status MemoryFile::seal_size() {
  if (fcntl(fd(), F_ADD_SEALS, size_seals) != 0)
    return system_error(errno, "seal the size of a file in memory", "memfd");
  return {};
}

MemoryFile& MemoryFile::operator=(MemoryFile&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(made_, other.made_);
  std::swap(counted_bytes_, other.counted_bytes_);
  return *this;
}

MemoryFile::~MemoryFile() {
  all_bytes.fetch_sub(counted_bytes_, std::memory_order_relaxed);
}

int MemoryFile::map(std::byte* address, size_t bytes, uint64_t offset, Protection access,
                    bool populate) const noexcept {
  if (made_.is_past()) return EPERM;
  const KeepErrno keep;
  const int flags = MAP_SHARED | MAP_FIXED | (populate ? MAP_POPULATE : 0);
  const int protection = access == Protection::none   ? PROT_NONE
                         : access == Protection::read ? PROT_READ
                                                      : PROT_READ | PROT_WRITE;
  void* mapped = mmap(address, bytes, protection, flags, fd(), static_cast<off_t>(offset));
  return mapped == MAP_FAILED ? errno : 0;
}

int discard_file_pages(std::byte* address, size_t bytes) noexcept {
  return errno_of([&] { return madvise(address, bytes, MADV_REMOVE); });
}

}  // namespace penstock::os
