#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "os/fd.h"
#include "os/generation.h"
#include "penstock/base.h"

namespace penstock::os {

// Finds the pages of a range that were written since the last call of take(). The kernel notes the
// first write of each page (userfaultfd with asynchronous write protection, Linux 6.7) and raises
// no signal. Works on shared memory and anonymous memory, with small and huge pages; a huge page is
// written as a whole, and stays huge in shared memory. Unwritten pages may be reported (a page that
// was mapped anew), written pages are always reported.
//
// In a forked child, whose descriptors look at its parent's memory, watch() and take() end with
// EPERM.
//
// Thread safety: a move-only value; one thread at a time calls take() for a range, whatever other
// threads write meanwhile.
class WriteWatch {
 public:
  // Errors: unsupported. Needs no privilege.
  static Result<WriteWatch> open();
  WriteWatch() = default;

  // Watches until the mapping is replaced, or the watch ends. At first all pages count as written.
  // Returns 0 or an errno.
  [[nodiscard]] int watch(std::byte* address, size_t bytes) noexcept;

  struct Written {
    std::byte* begin;
    std::byte* end;
  };
  // Stores the ranges that were written since the last call in `out`, in order, and counts them as
  // not written: a later call finds a later store. Goes from `at` towards `end` as far as `out` has
  // room, and moves `at` there. Returns 0 or an errno.
  [[nodiscard]] int take(std::byte*& at, std::byte* end, std::span<Written> out,
                         size_t& count) noexcept;

 private:
  Fd fault_fd_;
  Fd pagemap_fd_;
  Generation made_;
};

}  // namespace penstock::os
