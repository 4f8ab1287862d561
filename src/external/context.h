#pragma once

// What all parts of one run share: the options, the error that ends it, the pulse that reports
// progress, the account of what each phase asked of the disk, and that of what held the memory.

#include <atomic>
#include <chrono>
#include <optional>
#include <vector>

#include "base/mutex.h"
#include "external/external_sort.h"
#include "external/occupancy.h"
#include "file/engine.h"

namespace penstock::external {

// Thread safety: all members from any thread.
class Context {
 public:
  explicit Context(const SortOptions& run_options);

  const SortOptions& options;

  // To be called every few milliseconds of work: reports progress, and fails when the run was
  // cancelled or another thread has failed.
  Status pulse();
  // The run goes on to another phase, or comes back to one. `phase`: a literal.
  void set_phase(const char* phase, uint64_t total_bytes) EXCLUDES_LOCK(mutex_);
  // The same, of as many bytes as before.
  void set_step(const char* phase) EXCLUDES_LOCK(mutex_);
  // The same, for good: all that comes belongs to it, whatever its parts call themselves.
  void pin_phase(const char* phase) EXCLUDES_LOCK(mutex_);
  // What each phase took so far, in the order in which they first came. (All of the process: who
  // runs two sorts at a time has both in both.)
  std::vector<SortPhase> phases() EXCLUDES_LOCK(mutex_);

  OccupancyRecord& occupancy() { return occupancy_; }

  // Keeps the first error. Later ones follow from it.
  void fail(Error error) EXCLUDES_LOCK(mutex_);
  bool failed() const { return failed_.load(std::memory_order_acquire); }  // pairs with fail()
  Error error() EXCLUDES_LOCK(mutex_);

 private:
  void report() EXCLUDES_LOCK(mutex_);
  void look_at_memory();
  // What went by since the last call belongs to the present phase.
  void book() REQUIRES_LOCK(mutex_);

  std::atomic<bool> failed_{false};
  std::atomic<int64_t> next_report_ns_{0};
  std::atomic<int64_t> next_look_ns_{0};
  std::atomic<const char*> phase_{"sample"};
  std::atomic<uint64_t> total_bytes_{0};
  uint64_t traffic_before_bytes_;
  Mutex mutex_;
  std::optional<Error> error_ GUARDED_BY(mutex_);
  std::vector<SortPhase> phases_ GUARDED_BY(mutex_);
  bool pinned_ GUARDED_BY(mutex_) = false;
  file::Traffic booked_traffic_ GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point booked_until_ GUARDED_BY(mutex_);
  OccupancyRecord occupancy_;
};

}  // namespace penstock::external
