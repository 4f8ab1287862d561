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

// A disk, or an emulated one. One thread starts and ends all requests.
//
// Invariants: a buffer belongs to one part in flight; a flight belongs to one transfer from the
// queue's start() to its ended(). Parts of a transfer are submitted in a row, so that the order on
// the device is that of transfers.
class RealDevice final : public Device {
 public:
  RealDevice(const ReplayRegion& region, const ReplayPlan& plan, const ReplayOptions& options,
             Tally& tally, ReplayResult& result);

  Status open();
  Status add(const Transfer& transfer) override;
  Status finish() override;
  // Ends the measured time. REQUIRES: finish() was called, and the device was synced.
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
  Status end_one();
  void end(unsigned number);
  void start_syncs();
  Status end_syncs();

  const ReplayRegion& region_;
  const bool has_syncs_;
  const ReplayOptions& options_;
  Tally& tally_;
  ReplayResult& result_;
  ReplayQueue queue_;
  Clock::time_point begin_;
  std::array<Flight, replay_depth_max> flights_;
  std::vector<unsigned> free_flights_;
  std::vector<unsigned> free_parts_;  // free indexes into requests_ and the buffers
  ReplayBuffers buffers_;
  std::array<io::Request, replay_depth_max> requests_;
  std::unique_ptr<io::Engine> engine_;    // waits for its requests before the members above end
  std::unique_ptr<Alarm> alarm_;          // uses the engine
  std::unique_ptr<BackgroundSync> sync_;  // uses the engine; nullptr without syncs
  std::vector<unsigned> syncs_;           // flights of syncs that wait for a call
  std::vector<unsigned> served_;          // flights of syncs with a call under way
};

}  // namespace penstock::trace
