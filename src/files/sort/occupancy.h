#pragma once

// Record of what held the memory of a sort: over time, by bucket, and as staircases of buckets.
//
// A line for every event of every bucket would grow with the sort, and a sort of terabytes has many
// buckets. This record has a fixed size: memory over time is kept in bins whose duration doubles
// when the time does, and of the buckets a few hundred are kept, every second one of which is
// dropped when their number doubles.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "files/run/options.h"

namespace penstock::external {

using penstock::bucket_stages;
using penstock::BucketStage;
using penstock::Occupancy;
using penstock::Staircase;

// Thread safety: all members from any thread. Costs: some hundred additions for each bucket.
class OccupancyRecord {
 public:
  using Clock = std::chrono::steady_clock;

  struct BucketTimes {
    uint64_t offset_bytes = 0;
    uint64_t bytes = 0;
    uint64_t region_bytes = 0;  // memory that held the bucket
    Clock::time_point begin = {}, read = {}, waited = {}, sorted = {}, written = {};
    bool grows = false;  // its memory was filled evenly while it was read
  };

  // From now on the input is read into memory of this size, and all its buckets stay there.
  void expect_input(uint64_t memory_bytes) EXCLUDES_LOCK(mutex_);
  // From now on buckets are read, sorted and written within this memory. Returns the time since
  // when buckets in memory were read: that of expect_input(), if it was called.
  Clock::time_point expect_buckets(uint64_t memory_bytes) EXCLUDES_LOCK(mutex_);
  // Adds a written bucket. REQUIRES: its times ascend, none before expect_buckets().
  void add(const BucketTimes& bucket) EXCLUDES_LOCK(mutex_);

  Occupancy taken() EXCLUDES_LOCK(mutex_);

  static constexpr size_t bins_max = 256;
  static constexpr size_t buckets_max = 256;

 private:
  double seconds_of(Clock::time_point time) const {
    return std::chrono::duration<double>(time - began_).count();
  }
  void expect(uint64_t memory_bytes, Clock::time_point now) REQUIRES_LOCK(mutex_);
  void add_stage(BucketStage stage, double begin_s, double end_s, uint64_t bytes,
                 bool grows = false) REQUIRES_LOCK(mutex_);
  void double_bins() REQUIRES_LOCK(mutex_);

  const Clock::time_point began_ = Clock::now();
  Mutex mutex_;
  bool expecting_ GUARDED_BY(mutex_) = false;
  std::optional<Clock::time_point> input_since_ GUARDED_BY(mutex_);
  uint64_t stride_ GUARDED_BY(mutex_) = 1;  // one in this many buckets is kept
  Occupancy occupancy_ GUARDED_BY(mutex_);
};

}  // namespace penstock::external
