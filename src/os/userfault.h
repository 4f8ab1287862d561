#pragma once

#include <cstddef>
#include <utility>

#include "os/fd.h"
#include "os/generation.h"
#include "penstock/base.h"

namespace penstock::os {

// A userfaultfd: missing pages of the ranges that it watches fault, and UFFDIO_MOVE (Linux 6.8)
// moves pages into them.
//
// A forked child has a descriptor that acts on its parent's memory: there all calls end with EPERM,
// and next_event() as if it had been stopped.
//
// Thread safety: a move-only value; the calls that return int may be made from any thread, and on
// the fault path.
class Userfault {
 public:
  // For faults of user code only, which needs no privilege: a missing page raises SIGBUS in the
  // thread that touches it; a system call that touches it gets EFAULT.
  static Result<Userfault> open();
  // For all faults, those inside system calls, too: whoever touches a missing page waits in the
  // kernel until somebody has read the event and moved pages there, or poisoned the page. Needs
  // CAP_SYS_PTRACE, or access to /dev/userfaultfd (Linux 6.1).
  static Result<Userfault> open_privileged();
  // One of open(), which all pools of this process have: when one of their own is closed, the kernel
  // goes through all mappings of the process, so that closing many streams would take time in the
  // square of their number. It is open until the process ends.
  static Result<Userfault*> of_process();
  Userfault() = default;

  // Missing pages of the range fault from now on. REQUIRES: anonymous memory.
  [[nodiscard]] int watch(std::byte* address, size_t bytes) noexcept;
  [[nodiscard]] int unwatch(std::byte* address, size_t bytes) noexcept;

  // Moves all pages of a range; nothing may be there yet at `to` (EEXIST). Both mappings must be
  // anonymous, writable and of the same protection, `to` must be watched, and the pages must belong
  // to this process alone and be pinned by nobody: EBUSY, after a second in which the I/O that has
  // pinned them may end. When it fails halfway, what was moved is moved back by `watcher_of_from`, which
  // has to watch `from`.
  [[nodiscard]] int move(std::byte* from, std::byte* to, size_t bytes,
                         Userfault& watcher_of_from) noexcept;
  [[nodiscard]] int move(std::byte* from, std::byte* to, size_t bytes) noexcept {
    return move(from, to, bytes, *this);
  }

  // ---- of open_privileged()
  struct Event {
    std::byte* address;  // of the page
    bool write;
  };
  // Waits for the next fault; false when `stop_fd` has become readable.
  bool next_event(int stop_fd, Event& event) noexcept;
  // Who waits for a page of the range looks again.
  [[nodiscard]] int wake(std::byte* address, size_t bytes) noexcept;
  // Whoever touches the range from now on gets SIGBUS, a system call EFAULT.
  [[nodiscard]] int poison(std::byte* address, size_t bytes) noexcept;

 private:
  static Result<Userfault> with_features(Fd fd, uint64_t features);
  bool answers() noexcept;
  int ask(unsigned long request, void* argument) noexcept;

  Fd fd_;
  Generation made_;
};

}  // namespace penstock::os
