#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "os/event.h"

namespace penstock::os {

Result<Event> Event::create() {
  Event event;
  event.fd_ = Fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!event.fd_) return system_error(errno, "make an event", "eventfd");
  return event;
}

void Event::raise() const noexcept {
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = write(fd_.get(), &one, sizeof one);
}

void Event::clear() const noexcept {
  uint64_t raised = 0;
  [[maybe_unused]] const auto got = read(fd_.get(), &raised, sizeof raised);
}

}  // namespace penstock::os
