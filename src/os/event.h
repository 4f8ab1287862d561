#pragma once

#include "os/fd.h"
#include "penstock/base.h"

namespace penstock::os {

// Something that happens, for a thread that waits in poll(). Thread safety: a move-only value; raise() and
// clear() from any thread.
class Event {
 public:
  static Result<Event> create();
  Event() = default;

  int fd() const { return fd_.get(); }  // readable once raised
  void raise() const noexcept;
  void clear() const noexcept;  // REQUIRES: nobody raises it meanwhile; not raised is fine

 private:
  Fd fd_;
};

}  // namespace penstock::os
