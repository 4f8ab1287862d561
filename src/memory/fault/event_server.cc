#include "memory/fault/event_server.h"

#include <memory>
#include <stop_token>
#include <utility>

#include "base/thread.h"
#include "os/event.h"

namespace penstock::fault {
namespace {

void serve_events(os::Userfault& userfault, Handler& handler, const os::Event& stop) {
  os::Userfault::Event event;
  while (userfault.next_event(stop.fd(), event)) {
    const Fault fault{.address = event.address,
                      .access = event.write ? Access::write : Access::read,
                      .context = nullptr};
    // Poisoning fails if the page has appeared meanwhile: then looking again is right.
    if (handler.on_fault(fault) == Outcome::decline)
      (void)userfault.poison(event.address, os::page_bytes);
    (void)userfault.wake(event.address, os::page_bytes);
  }
}

}  // namespace

Result<EventServer> EventServer::start(os::Userfault& userfault, Handler& handler) {
  auto stop = os::Event::create();
  if (!stop) return std::unexpected(stop.error());
  EventServer server;
  server.thread_ = os::LeftToParent(std::make_unique<std::jthread>());
  auto started =
      start_thread(*server.thread_,
                   [&userfault, &handler, stop = std::move(*stop)](const std::stop_token& token) {
                     const std::stop_callback on_stop(token, [&] { stop.raise(); });
                     serve_events(userfault, handler, stop);
                   });
  if (!started) return std::unexpected(started.error());
  return server;
}

}  // namespace penstock::fault
