#pragma once

// Runs a piece of work in a process of its own, so that its time, its processor time and its memory
// are its own.

#include <cstdint>
#include <functional>

#include "penstock/base.h"

namespace penstock::bench {

struct Isolated {
  double seconds = 0;             // Probe::held() taken out
  double cpu_seconds = 0;         // user and system
  uint64_t peak_bytes = 0;        // resident, beyond what the process had before
  uint64_t page_table_bytes = 0;  // grown by, at Probe::held()
  uint64_t mappings = 0;          // likewise
  uint64_t result = 0;
};

// What the work can tell while it runs.
class Probe {
 public:
  Probe();
  // Call at the end of the work, with the memory still held. `shared_bytes` are those of a pool
  // whose pages are seen at several addresses: the kernel would count them once per view, so the
  // peak is then taken to be these and what is private now.
  void held(uint64_t shared_bytes = 0);

 private:
  uint64_t peak_bytes() const;

  friend Result<Isolated> run_isolated(const std::function<Result<uint64_t>(Probe&)>& work);
  const uint64_t resident_before_;
  const uint64_t private_before_;
  const uint64_t page_tables_before_;
  const uint64_t mappings_before_;
  uint64_t peak_bytes_ = 0;  // 0: what the kernel says
  uint64_t page_table_bytes_ = 0;
  uint64_t mappings_ = 0;
  double seconds_ = 0;  // inside held()
};

// Runs the work in a child: what it changes is lost. Thread safety: none (it forks).
Result<Isolated> run_isolated(const std::function<Result<uint64_t>(Probe&)>& work);

// A line of /proc/self/status, such as "VmPTE:", in bytes; 0 where there is none.
uint64_t status_bytes(const char* name);

}  // namespace penstock::bench
