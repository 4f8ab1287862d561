#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "io/engine.h"
#include "penstock/base.h"
#include "trace/replay/alarm.h"
#include "trace/replay/background_sync.h"
#include "trace/replay/replay.h"
#include "trace/replay/replay_device.h"

namespace penstock::trace {

// A disk, or an emulated one. One thread starts and ends everything.
//
// Invariants: a buffer is held by one part in flight; a flight by one transfer from the queue's
// start() to its ended(). Parts of a transfer are submitted in a row, so that the order on the
// device is that of transfers.
class RealDevice final : public Device {
 public:
  RealDevice(const ReplayRegion& region, const ReplayPlan& plan, const ReplayOptions& options,
             Tally& tally, ReplayResult& result);

  Status open();
  Status take(const Transfer& transfer) override;
  Status finish() override;
  // After finish(), and after what the device holds was brought to the disk.
  void stop_clock();

 private:
  using Clock = std::chrono::steady_clock;

  struct Flight {
    Transfer transfer;
    uint64_t parts_left = 0;
    Clock::time_point start;
  };

  uint64_t now_ns() const;
  Clock::time_point time_of(uint64_t ns) const;
  Status advance();
  Status make(const Transfer& transfer);
  Status take_one();
  void end(unsigned number);
  void start_syncs();
  Status take_sync();

  const ReplayRegion& region_;
  const bool has_syncs_;
  const ReplayOptions& options_;
  Tally& tally_;
  ReplayResult& result_;
  ReplayQueue queue_;
  Clock::time_point begin_;
  std::array<Flight, replay_depth_max> flights_;
  std::vector<unsigned> free_flights_;
  std::vector<unsigned> free_parts_;  // numbers of requests_, and of their buffers
  ReplayBuffers buffers_;
  std::array<io::Request, replay_depth_max> requests_;
  std::unique_ptr<io::Engine> engine_;    // before what it works on goes, it waits
  std::unique_ptr<Alarm> alarm_;          // uses the engine
  std::unique_ptr<BackgroundSync> sync_;  // the same; where there are syncs
  std::vector<unsigned> syncs_;           // flights that wait for a call
  std::vector<unsigned> served_;          // those whose call is under way
};

}  // namespace penstock::trace
