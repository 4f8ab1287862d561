#pragma once

#include <cstdint>

#include "os/fd.h"
#include "penstock/base.h"

namespace penstock::os {

// A process by number and start time, because numbers are used again.
struct ProcessId {
  int32_t pid = 0;
  uint64_t start_ticks = 0;  // since boot

  static Result<ProcessId> self();
};

// Limits core dumps of this process, and of those that it starts, to registers and the list of
// mappings, without memory contents.
Status keep_memory_out_of_core_dumps();

// Watches another process. Thread safety: a move-only value; the caller orders watch() and others.
class ProcessWatch {
 public:
  // Starts to watch. Returns 0 or an errno: ESRCH if the process has ended, or is not visible
  // (another pid namespace); any other says nothing about the process. Allocates nothing: it may
  // stand on the fault path. REQUIRES: not watching yet.
  [[nodiscard]] int watch(const ProcessId& process) noexcept;
  bool is_watching() const noexcept { return static_cast<bool>(fd_); }
  // Returns whether the process runs. A process that has ended counts as such even before its
  // parent waits for it. If the start time cannot be read (no free descriptor, /proc mounted with
  // hidepid), any process with the number counts until it can be. REQUIRES: is_watching().
  bool is_running() noexcept;

 private:
  bool is_other() noexcept;

  Fd fd_;
  ProcessId process_;
  bool verified_ = false;  // fd_ was found to be that process
};

}  // namespace penstock::os
