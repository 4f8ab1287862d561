#pragma once

// What held the memory of a sort: over time, bucket by bucket, and as staircases of buckets.
//
// The naive way writes a line for every event of every bucket; a sort of terabytes has many. What
// is kept here has one size whatever the sort's. Of memory over time there are bins, and twice as
// long a time makes each of them twice as long. Of buckets there are a few hundred, and twice as
// many buckets keep every second one.

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
    uint64_t region_bytes = 0;  // of memory
    Clock::time_point begin = {}, read = {}, waited = {}, sorted = {}, written = {};
    bool grows = false;  // its memory was filled evenly while it was read
  };

  // From now on the input is read to so much memory, in which all of its buckets stay.
  void expect_input(uint64_t memory_bytes) EXCLUDES_LOCK(mutex_);
  // Buckets will be read, sorted and written within so much memory, from now on. Since when those
  // that are there already have been read: since expect_input(), if that was called before.
  Clock::time_point expect_buckets(uint64_t memory_bytes) EXCLUDES_LOCK(mutex_);
  // One is written. REQUIRES: its times are in order, and none before expect_buckets().
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
  uint64_t stride_ GUARDED_BY(mutex_) = 1;  // of the buckets, every so many are kept
  Occupancy occupancy_ GUARDED_BY(mutex_);
};

}  // namespace penstock::external
