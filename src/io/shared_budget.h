#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "os/fd.h"
#include "penstock/base.h"

namespace penstock::io {

// A share of a memory budget that all processes of one user share by its name. It is held as long
// as the object and the process live.
//
// The budget is a file in /dev/shm, and stays there, 16 bytes long. A MiB of the budget is a byte
// of the file: a process holds the MiB by a lock on the byte, so that a share is free again when
// its process ends, however it ends. A process that wants a share draws a number, locks the byte of
// that number, and waits until no lower one is locked: first come, first served. Waiting holds
// nothing.
class SharedBudget {
 public:
  struct Options {
    std::string name;
    uint64_t budget_bytes = 0;  // size of the budget; 0: that of the running processes
    uint64_t bytes = 0;         // the share, rounded up to MiB
    const std::atomic<bool>* cancel = nullptr;
    // Called once, if waiting takes longer than a second.
    std::function<void(const std::string&)> notice;
  };
  // Waits until the share is free. Errors: interrupted by `cancel`; invalid_argument: a share
  // larger than the budget, or another budget than that of the running processes; permission: the
  // file of that name is not this user's alone; corrupt: somebody has truncated the file while
  // others use it; the system's errors.
  static Result<SharedBudget> acquire(const Options& options);

 private:
  explicit SharedBudget(os::Fd&& fd) : fd_(std::move(fd)) {}

  os::Fd fd_;  // its locks end with it
};

}  // namespace penstock::io
