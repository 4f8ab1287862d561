#pragma once

// The device of a replay's transfers, real or a model, and the counting that both share.

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>

#include "penstock/base.h"
#include "trace/replay/replay.h"

namespace penstock::trace {

inline bool cancelled(const ReplayOptions& options) {
  // Relaxed order: the flag guards no other data.
  return options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed);
}

// Counts transfers in the order in which they are started.
class Tally {
 public:
  explicit Tally(ReplayResult& result) : result_(result) {}

  // Counts a transfer. Returns whether it is a seek.
  bool started(const Transfer& transfer) {
    if (transfer.is_sync()) return false;
    const bool seek = !any_ || transfer.address != end_;
    any_ = true;
    end_ = transfer.address + transfer.bytes;
    if (seek) end_run();
    run_bytes_ = saturating_sum(run_bytes_, transfer.bytes);
    for (ReplayFigures* figures : {&result_.totals, &result_.files[transfer.file]}) {
      ++figures->transfers;
      uint64_t& moved = transfer.access == Access::read ? figures->moved_read_bytes
                                                        : figures->moved_written_bytes;
      moved = saturating_sum(moved, transfer.bytes);
      figures->seeks += seek;
    }
    return seek;
  }

  void ended(const Transfer& transfer, double seconds) {
    for (ReplayFigures* figures : {&result_.totals, &result_.files[transfer.file]}) {
      if (transfer.is_sync()) {
        figures->sync_seconds += seconds;
        figures->slowest_sync_seconds = std::max(figures->slowest_sync_seconds, seconds);
        continue;
      }
      figures->busy_seconds += seconds;
      figures->slowest_seconds = std::max(figures->slowest_seconds, seconds);
    }
  }

  void late(uint64_t ns) {
    result_.late_seconds_end = static_cast<double>(ns) * 1e-9;
    result_.late_seconds_max = std::max(result_.late_seconds_max, result_.late_seconds_end);
  }

  void end_run() {
    if (run_bytes_ != 0) ++result_.runs[static_cast<size_t>(std::bit_width(run_bytes_) - 1)];
    run_bytes_ = 0;
  }

 private:
  ReplayResult& result_;
  bool any_ = false;
  uint64_t end_ = 0;
  uint64_t run_bytes_ = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  // Adds a transfer, in the order of the trace.
  virtual Status add(const Transfer& transfer) = 0;
  // Waits until all transfers are done, after the last one.
  virtual Status finish() = 0;
};

}  // namespace penstock::trace
