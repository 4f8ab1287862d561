#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <ctime>
#include <memory>

#include "base/check.h"
#include "base/keep_errno.h"
#include "os/memory.h"
#include "os/userfault.h"

// Newer than the headers of Debian 12.
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef UFFD_FEATURE_MOVE
#define UFFD_FEATURE_MOVE (1 << 16)
#endif
#ifndef UFFDIO_MOVE
struct uffdio_move {
  __u64 dst;
  __u64 src;
  __u64 len;
  __u64 mode;
  __s64 move;  // bytes moved, or a negative errno
};
#define UFFDIO_MOVE _IOWR(UFFDIO, 0x05, struct uffdio_move)
#endif
#ifndef UFFD_FEATURE_POISON
#define UFFD_FEATURE_POISON (1 << 14)
#endif
#ifndef UFFDIO_POISON
struct uffdio_poison {
  struct uffdio_range range;
  __u64 mode;
  __s64 updated;  // bytes poisoned, or a negative errno
};
#define UFFDIO_POISON _IOWR(UFFDIO, 0x08, struct uffdio_poison)
#endif
#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif

namespace penstock::os {
namespace {

uint64_t word(const std::byte* address) {
  return reinterpret_cast<uintptr_t>(address);
}

struct Moved {
  size_t bytes;
  int error;
};

// Waits between the tries to move a busy page. The kernel holds some pages for a moment (to reclaim
// or to split them, or until it has released pages of ended I/O); I/O in flight pins them until it
// ends, and a registered buffer for ever. So the first tries follow each other at once, later ones
// wait, and after about a second there are no more.
class BusyPageRetries {
 public:
  bool next() noexcept {
    if (++tries_ > tries_max) return false;
    constexpr timespec nap{.tv_sec = 0, .tv_nsec = 200'000};
    tries_ <= tries_at_once ? (void)sched_yield() : (void)nanosleep(&nap, nullptr);
    return true;
  }

 private:
  static constexpr int tries_at_once = 100;
  static constexpr int tries_max = 4000;
  int tries_ = 0;
};

// Returns the length of the part at the beginning of a range that has no pages, neither in memory nor
// in swap; 0 without /proc.
size_t bytes_without_pages(const std::byte* begin, size_t bytes) noexcept {
  const Fd pagemap(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  if (!pagemap) return 0;
  constexpr uint64_t present_or_swapped = uint64_t{3} << 62;
  std::array<uint64_t, 64> entries;
  size_t missing = 0;
  while (missing < bytes) {
    const size_t asked =
        std::min(sizeof entries, (bytes - missing) / page_bytes * sizeof(uint64_t));
    const auto offset = static_cast<off_t>(word(begin + missing) / page_bytes * sizeof(uint64_t));
    const ssize_t got = pread(pagemap.get(), entries.data(), asked, offset);
    if (got != static_cast<ssize_t>(asked)) break;
    for (size_t i = 0; i < asked / sizeof(uint64_t); ++i, missing += page_bytes) {
      if ((entries[i] & present_or_swapped) != 0) return missing;
    }
  }
  return missing;
}

// Moves everything, a part, or nothing in each call. EAGAIN: the mappings were changing, or a page
// was being migrated; the same call works a moment later. EBUSY: see BusyPageRetries.
//
// EEXIST at pages that `from` lacks: they have moved already. Linux 6.18 moves pages in batches, and
// after one that it had to try again it forgets to count the next, tries that again as well, finds
// its pages at `to`, and reports EEXIST. It has not woken the threads that wait for these pages.
Moved move_some(int fd, std::byte* from, std::byte* to, size_t bytes) noexcept {
  BusyPageRetries retries;
  size_t done = 0;
  while (done < bytes) {
    uffdio_move request{};
    request.src = word(from) + done;
    request.dst = word(to) + done;
    request.len = bytes - done;
    if (ioctl(fd, UFFDIO_MOVE, &request) == 0) return {bytes, 0};
    const int error = errno;
    if (request.move > 0) {
      done += static_cast<size_t>(request.move);
    } else if (error == EAGAIN) {
      sched_yield();
    } else if (error == EEXIST) {
      const size_t moved = bytes_without_pages(from + done, bytes - done);
      if (moved == 0) return {done, error};
      uffdio_range range{word(to) + done, moved};
      (void)ioctl(fd, UFFDIO_WAKE, &range);
      done += moved;
    } else if (error != EBUSY || !retries.next()) {
      return {done, error};
    }
  }
  return {done, 0};
}

}  // namespace

Result<Userfault> Userfault::with_features(Fd fd, uint64_t features) {
  Userfault userfault;
  userfault.fd_ = std::move(fd);
  userfault.made_ = Generation::now();
  uffdio_api api{};
  api.api = UFFD_API;
  api.features = features;
  if (ioctl(userfault.fd_.get(), UFFDIO_API, &api) != 0)
    return system_error(errno, "ask for page moves and for signals", "userfaultfd",
                        "Linux 6.8 or later");
  return userfault;
}

Result<Userfault> Userfault::open() {
  Fd fd(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
  if (!fd)
    return system_error(errno, "open a userfaultfd for user-mode faults", "userfaultfd",
                        "a kernel with CONFIG_USERFAULTFD, and a sandbox that allows the call");
  return with_features(std::move(fd), UFFD_FEATURE_SIGBUS | UFFD_FEATURE_MOVE);
}

Result<Userfault*> Userfault::of_process() {
  // Never freed: pools that a forked child has inherited point to the parent's object.
  static constinit std::atomic<Userfault*> shared = nullptr;
  // acquire: pairs with the exchange.
  Userfault* now = shared.load(std::memory_order_acquire);
  if (now != nullptr && now->is_usable()) return now;
  auto opened = open();
  if (!opened) return std::unexpected(std::move(opened.error()));
  auto next = std::make_unique<Userfault>(std::move(*opened));
  // Another thread may have been first.
  if (!shared.compare_exchange_strong(now, next.get(), std::memory_order_acq_rel)) return now;
  return next.release();
}

Result<Userfault> Userfault::open_privileged() {
  Fd fd;
  if (const Fd device(::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC)); device)
    fd = Fd(ioctl(device.get(), USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK));
  if (!fd) fd = Fd(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK));
  if (!fd)
    return system_error(errno, "open a userfaultfd for faults inside system calls", "userfaultfd",
                        "run as root, or with access to /dev/userfaultfd");
  return with_features(std::move(fd), UFFD_FEATURE_POISON | UFFD_FEATURE_MOVE);
}

bool Userfault::next_event(int stop_fd, Event& event) noexcept {
  while (!made_.is_past()) {
    pollfd entries[] = {{.fd = fd_.get(), .events = POLLIN, .revents = 0},
                        {.fd = stop_fd, .events = POLLIN, .revents = 0}};
    if (poll(entries, 2, -1) < 0) continue;
    if (entries[1].revents != 0) return false;
    uffd_msg message;
    // Nothing to read: the waiting thread has been woken meanwhile.
    if (read(fd_.get(), &message, sizeof message) != sizeof message) continue;
    if (message.event != UFFD_EVENT_PAGEFAULT) continue;
    event = {.address = reinterpret_cast<std::byte*>(message.arg.pagefault.address),
             .write = (message.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WRITE) != 0};
    return true;
  }
  return false;
}

// Makes an ioctl; returns 0 or an errno.
int Userfault::control(unsigned long request, void* argument) noexcept {
  if (made_.is_past()) return EPERM;
  return errno_of([&] { return ioctl(fd_.get(), request, argument); });
}

// Returns false once other code has closed the descriptor, or in a forked child.
bool Userfault::is_usable() noexcept {
  alignas(page_bytes) static std::byte page[page_bytes];
  return wake(page, sizeof page) == 0;
}

int Userfault::wake(std::byte* address, size_t bytes) noexcept {
  uffdio_range range{word(address), bytes};
  return control(UFFDIO_WAKE, &range);
}

int Userfault::poison(std::byte* address, size_t bytes) noexcept {
  uffdio_poison request{};
  request.range = {word(address), bytes};
  return control(UFFDIO_POISON, &request);
}

int Userfault::watch(std::byte* address, size_t bytes) noexcept {
  uffdio_register request{};
  request.range = {word(address), bytes};
  request.mode = UFFDIO_REGISTER_MODE_MISSING;
  return control(UFFDIO_REGISTER, &request);
}

int Userfault::unwatch(std::byte* address, size_t bytes) noexcept {
  uffdio_range range{word(address), bytes};
  return control(UFFDIO_UNREGISTER, &range);
}

int Userfault::move(std::byte* from, std::byte* to, size_t bytes,
                    Userfault& watcher_of_from) noexcept {
  if (made_.is_past()) return EPERM;
  const KeepErrno keep;
  const Moved moved = move_some(fd_.get(), from, to, bytes);
  if (moved.error != 0 && moved.bytes > 0) {
    const Moved back = move_some(watcher_of_from.fd_.get(), to, from, moved.bytes);
    PENSTOCK_CHECK(back.error == 0,
                   "a block is torn: UFFDIO_MOVE stopped halfway in both directions");
  }
  return moved.error;
}

}  // namespace penstock::os
