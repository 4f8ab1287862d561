#pragma once

#include <cerrno>

namespace penstock {

// Gives errno back, at its end, as it was at its beginning. Code that a fault or a signal runs needs that: the code that it
// interrupts may be about to look at its own.
class KeepErrno {
 public:
  KeepErrno() noexcept : kept_(errno) {}
  ~KeepErrno() { errno = kept_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  const int kept_;
};

// 0, or the errno of a system call that returns -1 on failure. errno itself stays as it was.
template <class Call>
int errno_of(Call call) {
  const KeepErrno keep;
  return call() == -1 ? errno : 0;
}

}  // namespace penstock
