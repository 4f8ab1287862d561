#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "os/fd.h"
#include "os/generation.h"
#include "penstock/base.h"

namespace penstock::os {

// Which pages of a range were written since they were last asked for: the kernel notes it at the
// first write of each page (userfaultfd with asynchronous write protection, Linux 6.7) and raises
// no signal. Shared memory and anonymous memory, of small and of huge pages; a huge page is written
// as a whole, and stays huge in shared memory. Anything may be reported that was not written (a
// page that was mapped anew), nothing is left out.
//
// In a forked child, whose descriptors look at its parent's memory, watch() and take() end with
// EPERM.
//
// Thread safety: a move-only value; take() for one range by one thread at a time, whatever other
// threads write meanwhile.
class WriteWatch {
 public:
  // Errors: unsupported. Needs no privilege.
  static Result<WriteWatch> open();
  WriteWatch() = default;

  // Until the mapping is replaced, or the watch ends. All of it counts as written at first.
  // 0 or an errno.
  [[nodiscard]] int watch(std::byte* address, size_t bytes) noexcept;

  struct Written {
    std::byte* begin;
    std::byte* end;
  };
  // Puts stretches that were written since the last call into `out`, in order; from this moment on
  // they count as not written, and a later store to them is found by a later call. Goes as far from
  // `at` towards `end` as `out` has room, and moves `at` there. 0 or an errno.
  [[nodiscard]] int take(std::byte*& at, std::byte* end, std::span<Written> out,
                         size_t& count) noexcept;

 private:
  Fd fault_fd_;
  Fd pagemap_fd_;
  Generation made_;
};

}  // namespace penstock::os
