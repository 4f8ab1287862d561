#pragma once

#include <cstdint>

#include "os/fd.h"
#include "penstock/base.h"

namespace penstock::os {

// A process by number and start time: numbers are used again.
struct ProcessId {
  int32_t pid = 0;
  uint64_t start_ticks = 0;  // since boot

  static Result<ProcessId> self();
};

// From now on a core dump of this process, and of those that it starts, has registers and the list of mappings, and nothing
// that lay in memory.
Status keep_memory_out_of_core_dumps();

// Watches another process. Thread safety: a move-only value; the caller orders watch() and the
// others.
class ProcessWatch {
 public:
  // 0 or an errno: ESRCH when it has ended, or is not visible from here (another pid namespace);
  // any other says nothing about the process. Allocates nothing: it may stand on the fault path.
  // REQUIRES: not watching yet.
  [[nodiscard]] int watch(const ProcessId& process) noexcept;
  bool is_watching() const noexcept { return static_cast<bool>(fd_); }
  // A process that has ended counts as such even before its parent asks. Where the start time
  // cannot be seen (no free descriptor, /proc mounted with hidepid), whatever has the number is
  // taken for the process until it can be. REQUIRES: is_watching().
  bool is_running() noexcept;

 private:
  bool is_other() noexcept;

  Fd fd_;
  ProcessId process_;
  bool verified_ = false;  // that fd_ is that process
};

}  // namespace penstock::os
