#pragma once

// What all parts of one sort share: the options, the error that ends it, the pulse that reports
// progress, the account of what each phase asked of the disk, and that of what held the memory.

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

  // The run goes on to another phase, or comes back to one. `phase`: a literal.
  void set_phase(const char* phase, uint64_t total_bytes) EXCLUDES_LOCK(mutex_);
  // The same, of as many bytes as before.
  void set_step(const char* phase) EXCLUDES_LOCK(mutex_);
  // The same, for good: all that comes belongs to it, whatever its parts call themselves.
  void pin_phase(const char* phase) EXCLUDES_LOCK(mutex_);
  // The time that each phase took so far, in the order in which they first came. Processor seconds are those of
  // all threads of the process.
  std::vector<SortPhase> phases() EXCLUDES_LOCK(mutex_);

  OccupancyRecord& occupancy() { return occupancy_; }

  void add_staircases(std::vector<Staircase> staircases) EXCLUDES_LOCK(mutex_);
  std::vector<Staircase> staircases() EXCLUDES_LOCK(mutex_);

 private:
  // What went by since the last call belongs to the present phase.
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
