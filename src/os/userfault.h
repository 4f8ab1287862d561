#pragma once

#include <cstddef>
#include <utility>

#include "os/fd.h"
#include "os/generation.h"
#include "penstock/base.h"

namespace penstock::os {

// A userfaultfd: missing pages of the watched ranges fault, and UFFDIO_MOVE (Linux 6.8) moves pages
// into them.
//
// A forked child's descriptor acts on its parent's memory: there all calls end with EPERM, and
// next_event() as if it had been stopped.
//
// Thread safety: a move-only value; the calls that return int may be made from any thread, and on
// the fault path.
class Userfault {
 public:
  // Opens one for faults of user code only, which needs no privilege: a missing page raises SIGBUS
  // in the thread that touches it; a system call that touches it gets EFAULT.
  static Result<Userfault> open();
  // Opens one for all faults, including those inside system calls: a thread that touches a missing
  // page waits in the kernel until somebody has read the event and moved pages there, or poisoned
  // the page. Needs CAP_SYS_PTRACE, or access to /dev/userfaultfd (Linux 6.1).
  static Result<Userfault> open_privileged();
  // Returns one from open() that all pools of this process share. If each pool had its own, closing
  // many streams would take quadratic time, because closing one makes the kernel visit all mappings
  // of the process. It stays open until the process ends.
  static Result<Userfault*> of_process();
  Userfault() = default;

  // Makes missing pages of the range fault. REQUIRES: anonymous memory.
  [[nodiscard]] int watch(std::byte* address, size_t bytes) noexcept;
  [[nodiscard]] int unwatch(std::byte* address, size_t bytes) noexcept;

  // Moves all pages of a range; `to` must be empty (EEXIST). Both mappings must be anonymous,
  // writable and of the same protection, `to` must be watched, and the pages must belong to this
  // process only and not be pinned: EBUSY, after a second in which the I/O that has pinned them may
  // end. If it fails halfway, `watcher_of_from`, which has to watch `from`, moves them back.
  [[nodiscard]] int move(std::byte* from, std::byte* to, size_t bytes,
                         Userfault& watcher_of_from) noexcept;
  [[nodiscard]] int move(std::byte* from, std::byte* to, size_t bytes) noexcept {
    return move(from, to, bytes, *this);
  }

  // ---- for open_privileged()
  struct Event {
    std::byte* address;  // the page's
    bool write;
  };
  // Waits for the next fault; returns false when `stop_fd` has become readable.
  bool next_event(int stop_fd, Event& event) noexcept;
  // Wakes the threads that wait for a page of the range, to look again.
  [[nodiscard]] int wake(std::byte* address, size_t bytes) noexcept;
  // Makes later touches of the range raise SIGBUS, or EFAULT in a system call.
  [[nodiscard]] int poison(std::byte* address, size_t bytes) noexcept;

 private:
  static Result<Userfault> with_features(Fd fd, uint64_t features);
  bool is_usable() noexcept;
  int control(unsigned long request, void* argument) noexcept;

  Fd fd_;
  Generation made_;
};

}  // namespace penstock::os
