#pragma once

#include <cerrno>
#include <utility>

namespace penstock::os {

// A file descriptor that its owner closes; keeps errno. Thread safety: a move-only value.
class Fd {
 public:
  Fd() = default;
  // Takes a system call's result: < 0 is none.
  explicit Fd(long number) : number_(static_cast<int>(number)) {}
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

// Makes a system call, again if a signal interrupts it.
template <class Call>
auto retried(Call call) noexcept {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) return result;
  }
}

}  // namespace penstock::os
