#pragma once

#include <cerrno>
#include <utility>

namespace penstock::os {

// A file descriptor, closed with its owner; errno stays as it was. Thread safety: a move-only value.
class Fd {
 public:
  Fd() = default;
  explicit Fd(long number)
      : number_(static_cast<int>(number)) {}  // as system calls give it: < 0 is none
  Fd(Fd&& other) noexcept : number_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~Fd() { reset(); }

  explicit operator bool() const noexcept { return number_ >= 0; }
  int get() const noexcept { return number_; }
  int release() noexcept { return std::exchange(number_, -1); }
  void reset(int number = -1) noexcept;

 private:
  int number_ = -1;
};

// A system call, made again where a signal interrupted it.
template <class Call>
auto retried(Call call) noexcept {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

}  // namespace penstock::os
