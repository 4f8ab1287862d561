#pragma once

// What all parts of one run share: the options, the error that ends it, the pulse that reports
// progress.

#include <atomic>
#include <chrono>
#include <optional>

#include "base/mutex.h"
#include "external/external_sort.h"

namespace penstock::external {

// Thread safety: all members from any thread.
class Context {
 public:
  explicit Context(const SortOptions& run_options);

  const SortOptions& options;

  // To be called every few milliseconds of work: reports progress, and fails when the run was
  // cancelled or another thread has failed.
  Status pulse();
  void set_phase(const char* phase, uint64_t total_bytes);
  // The same, of as many bytes as before.
  void set_step(const char* phase) { phase_.store(phase, std::memory_order_relaxed); }

  // Keeps the first error. Later ones follow from it.
  void fail(Error error) EXCLUDES_LOCK(mutex_);
  bool failed() const { return failed_.load(std::memory_order_acquire); }  // pairs with fail()
  Error error() EXCLUDES_LOCK(mutex_);

 private:
  void report() EXCLUDES_LOCK(mutex_);

  std::atomic<bool> failed_{false};
  std::atomic<int64_t> next_report_ns_{0};
  std::atomic<const char*> phase_{"sample"};
  std::atomic<uint64_t> total_bytes_{0};
  uint64_t traffic_before_bytes_;
  Mutex mutex_;
  std::optional<Error> error_ GUARDED_BY(mutex_);
};

}  // namespace penstock::external
