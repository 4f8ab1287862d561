#pragma once

#include <utility>

#include "penstock/error.h"

namespace penstock::os {

// Something that happens once, for a thread that waits in poll(). Thread safety: a move-only value;
// raise() from any thread.
class Event {
 public:
  static Result<Event> create();
  Event() = default;
  Event(Event&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Event& operator=(Event&& other) noexcept;
  ~Event();

  int fd() const { return fd_; }  // readable once raised
  void raise() const noexcept;

 private:
  int fd_ = -1;
};

}  // namespace penstock::os
