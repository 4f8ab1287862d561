#pragma once

#include "os/fd.h"
#include "penstock/base.h"

namespace penstock::os {

// A flag that wakes poll(). Thread safety: a move-only value; raise() and clear() from any thread.
class Event {
 public:
  static Result<Event> create();
  Event() = default;

  int fd() const { return fd_.get(); }  // readable once raised
  void raise() const noexcept;
  void clear() const noexcept;  // REQUIRES: no raise() at the same time

 private:
  Fd fd_;
};

}  // namespace penstock::os
