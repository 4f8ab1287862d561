#pragma once

// The state that all parts of one run share: the error that ends it, the pulse that reports
// progress, and the figures that all statistics begin with.

#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "files/run/options.h"
#include "io/engine.h"

namespace penstock::files {

// Items between two calls of RunContext::pulse() in a loop over items.
inline constexpr uint32_t items_between_pulses = 4096;

// Thread safety: all members from any thread.
class RunContext {
 public:
  // `verb`: the command for messages, such as "merge". REQUIRES: the options outlive it.
  RunContext(const FilesOptions& options, const char* verb);

  // Reports progress; fails if the run was cancelled or another thread has failed. REQUIRES: called
  // every few milliseconds of work.
  Status pulse();
  // Sets the phase that progress reports. REQUIRES: a string literal.
  void show(const char* phase) { phase_.store(phase, std::memory_order_relaxed); }
  void expect(uint64_t total_bytes) { total_bytes_.store(total_bytes, std::memory_order_relaxed); }
  // Sets the inputs' size that progress reports.
  void set_input_bytes(uint64_t bytes) { input_bytes_.store(bytes, std::memory_order_relaxed); }
  // Bytes read and written since construction. REQUIRES: a thread of the run calls it.
  uint64_t done_bytes() const;
  // The expected duration and traffic of a phase; phases run one after the other.
  struct ExpectedPhase {
    uint64_t bytes = 0;
    double seconds = 0;
  };
  void expect(std::vector<ExpectedPhase> phases) EXCLUDES_LOCK(mutex_);

  // Keeps the first error: later ones are its consequences.
  void fail(Error error) EXCLUDES_LOCK(mutex_);
  bool failed() const { return failed_.load(std::memory_order_acquire); }  // pairs with fail()
  Error error() EXCLUDES_LOCK(mutex_);

  // Fills the figures that all runs have, since construction: seconds, traffic and memory.
  // REQUIRES: a thread of the run calls it, and stats.temp_bytes is set.
  void fill(RunStats& stats, const std::vector<std::string>& temp_directories) const;

 private:
  void report() EXCLUDES_LOCK(mutex_);
  std::optional<double> seconds_left(uint64_t done_bytes) const REQUIRES_LOCK(mutex_);

  const FilesOptions& files_;
  const char* const verb_;
  std::atomic<bool> failed_{false};
  std::atomic<int64_t> next_report_ns_{0};
  std::atomic<int64_t> next_look_ns_{0};
  std::atomic<const char*> phase_{""};
  std::atomic<uint64_t> total_bytes_{0};
  std::atomic<uint64_t> input_bytes_{0};
  const io::Traffic traffic_before_ = io::traffic();
  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  Mutex mutex_;
  std::optional<Error> error_ GUARDED_BY(mutex_);
  std::vector<ExpectedPhase> expected_ GUARDED_BY(mutex_);
};

}  // namespace penstock::files
