#pragma once

#include <cstdint>
#include <memory>
#include <utility>

namespace penstock::os {

// The number of an address space among its ancestors, which implements the rule for forks: an
// object that stands for memory or threads of an address space acts only in the address space where
// it was made. Its copy in a forked child is inert: it makes no system call that would reach the
// parent (an inherited userfaultfd acts on the parent's memory) or destroy the child's memory
// (which may lie at the addresses of excluded memory).
//
// A child of fork() or clone() has a generation of its own, even if no handler of pthread_atfork()
// ran (unless the system lacks MADV_WIPEONFORK, as gVisor does: then only a child of fork()). A
// child that shares its parent's memory (vfork, CLONE_VM) has the parent's generation: its actions
// affect the parent, like those of the parent's threads.
//
// Thread safety: a value; all members may stand on the fault path. A comparison costs two loads.
class Generation {
 public:
  Generation() = default;  // no generation: never past
  // False if the system has no memory for generations; Reservation::reserve() reports that.
  explicit operator bool() const noexcept { return number_ != 0; }
  static Generation now() noexcept;
  // Returns whether this process is a descendant, by forks, of this generation's.
  bool is_past() const noexcept { return number_ != 0 && number_ != now().number_; }

 private:
  uint64_t number_ = 0;
};

// A T that is destroyed only in the process where it was made. A forked child abandons it: the
// destructor of a thread would wait there for a thread that does not exist. Thread safety: a
// move-only value.
template <class T>
class LeftToParent {
 public:
  LeftToParent() = default;  // no object
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
