#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "os/fd.h"
#include "penstock/base.h"

namespace penstock::io {

// A part of a budget of memory, which all processes of one user that name it share. It is held as long as
// the object and the process live.
//
// The budget is a file in /dev/shm, and stays there, 16 bytes long. A MiB of the budget is a byte of the file:
// whoever holds the MiB has locked the byte, so that a part is free again when its process ends, in whatever
// way. Whoever wants a part draws a number, locks the byte of that number, and waits until nobody has locked a
// lower one: first come, first served. Nothing is held while waiting.
class SharedBudget {
 public:
  struct Options {
    std::string name;
    uint64_t budget_bytes = 0;  // of all together. 0: as large as those say that hold parts of it
    uint64_t bytes = 0;         // the part, rounded up to MiB
    const std::atomic<bool>* cancel = nullptr;
    // Is told once, where it takes longer than a second.
    std::function<void(const std::string&)> notice;
  };
  // Waits until the part is free. Errors: interrupted, by `cancel`; invalid_argument: a part larger than the budget, another
  // budget than that of the processes which run in it; permission: a file of that name which is not this user's alone; corrupt: a file that
  // somebody has cut off while others run in it; what the system says.
  static Result<SharedBudget> take(const Options& options);

 private:
  explicit SharedBudget(os::Fd&& fd) : fd_(std::move(fd)) {}

  os::Fd fd_;  // its locks end with it
};

}  // namespace penstock::io
