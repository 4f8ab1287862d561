#pragma once

#include <atomic>
#include <cstdint>

#include "os/memory.h"
#include "penstock/error.h"

namespace penstock::pool {

// Tells a process from the children that it forks: a word that reads as 0 in these. To ask costs
// two loads and no system call, and unlike the number of a process the answer is never another
// one's.
// Thread safety: a move-only value; is_inherited() from any thread, and on the fault path.
class ForkMark {
 public:
  static Result<ForkMark> make();
  ForkMark() = default;  // of no process: never inherited

  bool is_inherited() const noexcept {
    return page_.begin() != nullptr && word()->load(std::memory_order_relaxed) == 0;
  }

 private:
  std::atomic<uint32_t>* word() const noexcept {
    return reinterpret_cast<std::atomic<uint32_t>*>(page_.begin());
  }

  os::Reservation page_;
};

}  // namespace penstock::pool
