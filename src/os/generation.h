#pragma once

#include <cstdint>
#include <memory>
#include <utility>

namespace penstock::os {

// The one rule for forks: what stands for memory or threads of an address space acts only in the
// address space that it was made in. In a forked child, to which a copy of it came, it is inert:
// it makes no system call that would reach the parent (a userfaultfd that was inherited acts on the
// parent's memory) or take from the child (other memory may lie by now where excluded memory was).
//
// A generation is the number of an address space among those that its ancestors had. A child of
// fork() or clone() has one of its own, also where no handler of pthread_atfork() ran (unless the
// system lacks MADV_WIPEONFORK, as gVisor does: then a child of fork() alone). A child that
// shares its parent's memory (vfork, CLONE_VM) has the parent's: what it does there is done to the
// parent, as by one of its threads.
//
// Thread safety: a value; all members may stand on the fault path. To ask costs two loads.
class Generation {
 public:
  Generation() = default;  // of nobody: never past
  // False where the system has no memory to tell generations by; Reservation::reserve() says so.
  explicit operator bool() const noexcept { return number_ != 0; }
  static Generation now() noexcept;
  // Whether this process was forked, once or several times, off the one in which now() gave this.
  bool is_past() const noexcept { return number_ != 0 && number_ != now().number_; }

 private:
  uint64_t number_ = 0;
};

// A T that ends in the process in which it was made. A forked child leaves it as it is: the
// destructor of a thread would wait there for a thread that is not there.
// Thread safety: a move-only value.
template <class T>
class LeftToParent {
 public:
  LeftToParent() = default;  // none
  explicit LeftToParent(std::unique_ptr<T> object)
      : object_(std::move(object)), made_(Generation::now()) {}
  LeftToParent(LeftToParent&&) noexcept = default;
  LeftToParent& operator=(LeftToParent&& other) noexcept {
    std::swap(object_, other.object_);
    std::swap(made_, other.made_);
    return *this;
  }
  ~LeftToParent() {
    if (made_.is_past()) (void)object_.release();
  }

  bool is_inherited() const noexcept { return made_.is_past(); }
  T* get() const noexcept { return object_.get(); }
  T* operator->() const noexcept { return object_.get(); }
  T& operator*() const noexcept { return *object_; }

 private:
  std::unique_ptr<T> object_;
  Generation made_;
};

}  // namespace penstock::os
