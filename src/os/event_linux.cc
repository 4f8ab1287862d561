#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "os/event.h"

namespace penstock::os {

Result<Event> Event::create() {
  Event event;
  event.fd_ = eventfd(0, EFD_CLOEXEC);
  if (event.fd_ < 0) return system_error(errno, "make an event", "eventfd");
  return event;
}

Event& Event::operator=(Event&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

Event::~Event() {
  if (fd_ >= 0) close(fd_);
}

void Event::raise() const noexcept {
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = write(fd_, &one, sizeof one);
}

}  // namespace penstock::os
