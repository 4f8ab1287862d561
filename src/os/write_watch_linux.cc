// Asynchronous write protection: a page table entry carries a bit that makes the first write fault
// into the kernel, which clears the bit and goes on. PAGEMAP_SCAN finds the entries without the
// bit, reports them and sets it, one entry at a time and with the TLBs flushed before it returns.

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/keep_errno.h"
#include "os/write_watch.h"

// Newer than the headers of Debian 12.
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef UFFD_FEATURE_WP_UNPOPULATED
#define UFFD_FEATURE_WP_UNPOPULATED (1 << 13)
#endif
#ifndef UFFD_FEATURE_WP_ASYNC
#define UFFD_FEATURE_WP_ASYNC (1 << 15)
#endif

namespace penstock::os {
namespace {

// The struct pm_scan_arg of Linux 6.7 (linux/fs.h) and its flags.
struct ScanRequest {
  uint64_t size;
  uint64_t flags;
  uint64_t start;
  uint64_t end;
  uint64_t walk_end;
  uint64_t regions;
  uint64_t regions_count;
  uint64_t pages_max;
  uint64_t category_inverted;
  uint64_t category_mask;
  uint64_t category_any_of;
  uint64_t return_mask;
};
struct ScanRegion {
  uint64_t start;
  uint64_t end;
  uint64_t categories;
};
constexpr uint64_t page_is_written = 1 << 1;
constexpr uint64_t protect_matching = 1 << 0;    // PM_SCAN_WP_MATCHING
constexpr uint64_t check_asynchronous = 1 << 1;  // PM_SCAN_CHECK_WPASYNC
#define PENSTOCK_PAGEMAP_SCAN _IOWR('f', 16, ScanRequest)

}  // namespace

Result<WriteWatch> WriteWatch::open() {
  constexpr const char* hint =
      "Linux 6.7 or later with CONFIG_USERFAULTFD, and a sandbox that allows it";
  WriteWatch watch;
  watch.made_ = Generation::now();
  watch.fault_fd_ = Fd(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
  uffdio_api api{};
  api.api = UFFD_API;
  api.features =
      UFFD_FEATURE_WP_ASYNC | UFFD_FEATURE_WP_UNPOPULATED | UFFD_FEATURE_WP_HUGETLBFS_SHMEM;
  if (!watch.fault_fd_ || ioctl(watch.fault_fd_.get(), UFFDIO_API, &api) != 0)
    return failure(ErrorCode::unsupported, "have the kernel note which pages are written",
                   "userfaultfd", hint);
  watch.pagemap_fd_ = Fd(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  ScanRequest nothing{};
  nothing.size = sizeof nothing;
  nothing.category_mask = nothing.return_mask = page_is_written;
  if (!watch.pagemap_fd_ || ioctl(watch.pagemap_fd_.get(), PENSTOCK_PAGEMAP_SCAN, &nothing) < 0)
    return failure(ErrorCode::unsupported, "ask the kernel which pages were written",
                   "/proc/self/pagemap", hint);
  return watch;
}

int WriteWatch::watch(std::byte* address, size_t bytes) noexcept {
  if (made_.is_past()) return EPERM;
  uffdio_register request{};
  request.range = {reinterpret_cast<uintptr_t>(address), bytes};
  request.mode = UFFDIO_REGISTER_MODE_WP;
  return errno_of([&] { return ioctl(fault_fd_.get(), UFFDIO_REGISTER, &request); });
}

int WriteWatch::take(std::byte*& at, std::byte* end, std::span<Written> out,
                     size_t& count) noexcept {
  constexpr size_t regions_max = 128;  // on the stack
  count = 0;
  if (made_.is_past()) return EPERM;
  const KeepErrno keep;
  int error = 0;
  while (at < end && count < out.size() && error == 0) {
    ScanRegion regions[regions_max];
    ScanRequest request{};
    request.size = sizeof request;
    request.flags = protect_matching | check_asynchronous;
    request.start = reinterpret_cast<uintptr_t>(at);
    request.end = reinterpret_cast<uintptr_t>(end);
    request.regions = reinterpret_cast<uintptr_t>(regions);
    request.regions_count = std::min(regions_max, out.size() - count);
    request.category_mask = request.return_mask = page_is_written;
    const int found = ioctl(pagemap_fd_.get(), PENSTOCK_PAGEMAP_SCAN, &request);
    if (found < 0) {
      error = errno == EINTR ? 0 : errno;
      continue;
    }
    for (int i = 0; i < found; ++i) {
      out[count++] = {at + (regions[i].start - request.start),
                      at + (regions[i].end - request.start)};
    }
    at += request.walk_end - request.start;
  }
  return error;
}

}  // namespace penstock::os
