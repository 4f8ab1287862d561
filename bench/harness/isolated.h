#pragma once

// Runs work in a process of its own, to measure its time, processor time and memory separately.

#include <cstdint>
#include <functional>

#include "penstock/base.h"

namespace penstock::bench {

struct Isolated {
  double seconds = 0;             // without the time in Probe::held()
  double cpu_seconds = 0;         // user and system
  uint64_t peak_bytes = 0;        // resident, beyond what the process had before
  uint64_t page_table_bytes = 0;  // growth, at Probe::held()
  uint64_t mappings = 0;          // growth, at Probe::held()
  uint64_t result = 0;
};

// Measurements that the work triggers while it runs.
class Probe {
 public:
  Probe();
  // To be called at the end of the work, with the memory still held. `shared_bytes` are those of a
  // pool whose pages are mapped at several addresses: the kernel would count them once per mapping,
  // so the peak is then these bytes plus the present private ones.
  void held(uint64_t shared_bytes = 0);

 private:
  uint64_t peak_bytes() const;

  friend Result<Isolated> run_isolated(const std::function<Result<uint64_t>(Probe&)>& work);
  const uint64_t resident_before_;
  const uint64_t private_before_;
  const uint64_t page_tables_before_;
  const uint64_t mappings_before_;
  uint64_t peak_bytes_ = 0;  // 0: as the kernel reports it
  uint64_t page_table_bytes_ = 0;
  uint64_t mappings_ = 0;
  double seconds_ = 0;  // inside held()
};

// Runs the work in a child, whose changes to memory are lost. Thread safety: none (it forks).
Result<Isolated> run_isolated(const std::function<Result<uint64_t>(Probe&)>& work);

// A line of /proc/self/status, such as "VmPTE:", in bytes; 0 if there is none.
uint64_t status_bytes(const char* name);

}  // namespace penstock::bench
