#pragma once

#include <cstddef>
#include <utility>

#include "penstock/error.h"

namespace penstock::os {

// A userfaultfd for faults of user code only, which needs no privilege: a missing page of a
// registered range raises SIGBUS in the thread that touches it, and UFFDIO_MOVE (Linux 6.8) moves
// pages into the range. A system call that touches a missing page there gets EFAULT.
//
// Thread safety: a move-only value; the calls that return int may be made from any thread, and on
// the fault path.
class Userfault {
 public:
  static Result<Userfault> open();
  Userfault() = default;
  Userfault(Userfault&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Userfault& operator=(Userfault&& other) noexcept;
  ~Userfault();

  // Missing pages of the range fault from now on. REQUIRES: anonymous memory.
  [[nodiscard]] int watch(std::byte* address, size_t bytes) noexcept;
  [[nodiscard]] int unwatch(std::byte* address, size_t bytes) noexcept;

  // Moves all pages of a range; nothing may be there yet at `to` (EEXIST). Both mappings must be
  // anonymous, writable and of the same protection, `to` must be watched, and the pages must belong
  // to this process alone and be pinned by nobody (EBUSY). When it fails halfway, what was moved is
  // moved back: the source then must be watched as well.
  [[nodiscard]] int move(std::byte* from, std::byte* to, size_t bytes) noexcept;

 private:
  int fd_ = -1;
};

}  // namespace penstock::os
