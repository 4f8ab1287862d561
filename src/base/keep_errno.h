#pragma once

#include <cerrno>

namespace penstock {

// Restores errno when it is destroyed. Code that a fault or a signal runs needs that: the
// interrupted code may be about to read its own errno.
class KeepErrno {
 public:
  KeepErrno() noexcept : kept_(errno) {}
  ~KeepErrno() { errno = kept_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  const int kept_;
};

// Returns 0, or the errno of a system call that returns -1 on failure. Keeps errno.
template <class Call>
int errno_of(Call call) {
  const KeepErrno keep;
  return call() == -1 ? errno : 0;
}

}  // namespace penstock
