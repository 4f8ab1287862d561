#pragma once

// State that all parts of one sort share: the options, the error that ends it, the pulse that
// reports progress, the account of each phase's disk traffic, and the occupancy of memory.

#include <chrono>
#include <vector>

#include "base/mutex.h"
#include "files/run/run_context.h"
#include "files/sort/external_sort.h"
#include "files/sort/occupancy.h"
#include "io/engine.h"

namespace penstock::external {

// Thread safety: all members from any thread.
class Context : public files::RunContext {
 public:
  explicit Context(const SortOptions& run_options);

  const SortOptions& options;

  // Begins or continues the phase `phase`, a string literal, with the given bytes to process.
  void set_phase(const char* phase, uint64_t total_bytes) EXCLUDES_LOCK(mutex_);
  // Begins or continues a phase; the expected bytes stay as they are.
  void set_step(const char* phase) EXCLUDES_LOCK(mutex_);
  // Begins a phase and keeps it: later calls of set_phase() and set_step() do not change it.
  void pin_phase(const char* phase) EXCLUDES_LOCK(mutex_);
  // Accounts of the phases so far, in the order in which they first began. Processor seconds are
  // those of all threads of the process.
  std::vector<SortPhase> phases() EXCLUDES_LOCK(mutex_);

  OccupancyRecord& occupancy() { return occupancy_; }

  void add_staircases(std::vector<Staircase> staircases) EXCLUDES_LOCK(mutex_);
  std::vector<Staircase> staircases() EXCLUDES_LOCK(mutex_);

 private:
  // Books the time and traffic since the last call to the current phase.
  void book() REQUIRES_LOCK(mutex_);

  Mutex mutex_;
  const char* phase_ GUARDED_BY(mutex_) = "sample";
  std::vector<SortPhase> phases_ GUARDED_BY(mutex_);
  std::vector<Staircase> staircases_ GUARDED_BY(mutex_);
  bool pinned_ GUARDED_BY(mutex_) = false;
  io::Traffic booked_traffic_ GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point booked_until_ GUARDED_BY(mutex_);
  double booked_processor_s_ GUARDED_BY(mutex_);
  OccupancyRecord occupancy_;
};

}  // namespace penstock::external
