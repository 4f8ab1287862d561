#pragma once

#include <cstddef>
#include <thread>

#include "memory/fault/registry.h"
#include "os/generation.h"
#include "os/memory.h"
#include "os/userfault.h"

namespace penstock::fault {

// Serves the faults of one range whose userfaultfd reports events (PoolOptions::system_calls): a
// thread reads them and calls the region's handler, on behalf of a thread that waits in the kernel,
// in a load, a store or a system call. Faults of one range are served one after the other; a
// handler may wait for another range's.
//
// If the handler declines, the page is poisoned: the waiting thread gets SIGBUS, and the registry
// calls the handler again, now with a context; a system call ends with EFAULT.
//
// Thread safety: a move-only value. REQUIRES: handler, userfault and range outlive it, and nobody
// waits in the range any more when it is destroyed.
class EventServer {
 public:
  static Result<EventServer> start(os::Userfault& userfault, Handler& handler);
  EventServer() = default;
  EventServer(EventServer&&) = default;
  EventServer& operator=(EventServer&&) = default;

 private:
  os::LeftToParent<std::jthread> thread_;  // stops and is joined on destruction
};

}  // namespace penstock::fault
