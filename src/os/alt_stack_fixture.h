#pragma once

// A signal stack for tests of code in signal handlers.

#include <sys/auxv.h>

#include <csignal>
#include <cstddef>
#include <vector>

// Newer than some headers; the kernel's size of the signal frame with AVX-512 and AMX registers.
#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

namespace penstock::os {

// Gives the calling thread a signal stack of 64 KiB besides the frame's size, while it lives.
class AltStack {
 public:
  AltStack() : memory_((size_t{64} << 10) + getauxval(AT_MINSIGSTKSZ)) {
    const stack_t ours = {.ss_sp = memory_.data(), .ss_flags = 0, .ss_size = memory_.size()};
    in_use_ = sigaltstack(&ours, &previous_) == 0;
  }
  ~AltStack() {
    previous_.ss_flags &= SS_DISABLE;
    if (in_use_) sigaltstack(&previous_, nullptr);
  }
  AltStack(const AltStack&) = delete;
  AltStack& operator=(const AltStack&) = delete;

  bool in_use() const { return in_use_; }

 private:
  std::vector<std::byte> memory_;
  stack_t previous_ = {};
  bool in_use_ = false;
};

}  // namespace penstock::os
