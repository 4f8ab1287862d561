#pragma once

#include <linux/io_uring.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstddef>

#include "os/memory.h"

namespace penstock::pool {

// Makes the kernel hold a page for I/O while it lives: a registered buffer.
class PinnedPage {
 public:
  explicit PinnedPage(std::byte* page) {
    io_uring_params parameters = {};
    ring_ = static_cast<int>(::syscall(SYS_io_uring_setup, 1, &parameters));
    const iovec buffer = {.iov_base = page, .iov_len = os::page_bytes};
    is_pinned_ = ring_ >= 0 &&
                 ::syscall(SYS_io_uring_register, ring_, IORING_REGISTER_BUFFERS, &buffer, 1) == 0;
  }
  ~PinnedPage() {
    if (is_pinned_) ::syscall(SYS_io_uring_register, ring_, IORING_UNREGISTER_BUFFERS, nullptr, 0);
    if (ring_ >= 0) ::close(ring_);
  }
  PinnedPage(const PinnedPage&) = delete;
  PinnedPage& operator=(const PinnedPage&) = delete;
  bool is_pinned() const { return is_pinned_; }

 private:
  int ring_;
  bool is_pinned_;
};

}  // namespace penstock::pool
