#include "fault/event_server.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <stop_token>

namespace penstock::fault {
namespace {

void serve(os::Userfault& userfault, Handler& handler, int stop_fd) {
  os::Userfault::Event event;
  while (userfault.next_event(stop_fd, event)) {
    const Fault fault{.address = event.address,
                      .access = event.write ? Access::write : Access::read,
                      .context = nullptr};
    // Poisoning fails where the page has appeared meanwhile: then looking again is right.
    if (handler.on_fault(fault) == Outcome::decline)
      (void)userfault.poison(event.address, os::page_bytes);
    (void)userfault.wake(event.address, os::page_bytes);
  }
}

}  // namespace

Result<EventServer> EventServer::start(os::Userfault& userfault, Handler& handler) {
  const int stop_fd = eventfd(0, EFD_CLOEXEC);
  if (stop_fd < 0) return system_error(errno, "make an eventfd", "event server");
  EventServer server;
  server.thread_ = std::jthread([&userfault, &handler, stop_fd](const std::stop_token& stop) {
    {
      const std::stop_callback on_stop(stop, [stop_fd] {
        const uint64_t one = 1;
        [[maybe_unused]] const auto written = write(stop_fd, &one, sizeof one);
      });
      serve(userfault, handler, stop_fd);
    }
    close(stop_fd);
  });
  return server;
}

}  // namespace penstock::fault
