#include "files/sort/occupancy.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace penstock::external {
namespace {

// Short enough that a sort of a quarter of a second still has a picture.
constexpr double first_bin_s = 0.001;

}  // namespace

void OccupancyRecord::expect_input(uint64_t memory_bytes) {
  MutexLock lock(mutex_);
  const Clock::time_point now = Clock::now();
  expect(memory_bytes, now);
  input_since_ = now;
}

OccupancyRecord::Clock::time_point OccupancyRecord::expect_buckets(uint64_t memory_bytes) {
  MutexLock lock(mutex_);
  const Clock::time_point now = Clock::now();
  expect(memory_bytes, now);
  return std::exchange(input_since_, std::nullopt).value_or(now);
}

void OccupancyRecord::expect(uint64_t memory_bytes, Clock::time_point now) {
  occupancy_.memory_bytes = std::max(occupancy_.memory_bytes, memory_bytes);
  if (expecting_) return;
  expecting_ = true;
  occupancy_.start_s = seconds_of(now);
  occupancy_.bin_s = first_bin_s;
  for (std::vector<double>& bytes : occupancy_.stage_bytes) bytes.assign(bins_max, 0);
}

void OccupancyRecord::add(const BucketTimes& bucket) {
  MutexLock lock(mutex_);
  const Occupancy::Bucket shown = {.offset_bytes = bucket.offset_bytes,
                                   .bytes = bucket.bytes,
                                   .begin_s = seconds_of(bucket.begin),
                                   .read_s = seconds_of(bucket.read),
                                   .waited_s = seconds_of(bucket.waited),
                                   .sorted_s = seconds_of(bucket.sorted),
                                   .written_s = seconds_of(bucket.written)};
  add_stage(BucketStage::reading, shown.begin_s, shown.read_s, bucket.region_bytes, bucket.grows);
  add_stage(BucketStage::waiting, shown.read_s, shown.waited_s, bucket.region_bytes);
  add_stage(BucketStage::sorting, shown.waited_s, shown.sorted_s, bucket.region_bytes);
  add_stage(BucketStage::writing, shown.sorted_s, shown.written_s, bucket.region_bytes);

  std::vector<Occupancy::Bucket>& kept = occupancy_.buckets;
  if (occupancy_.buckets_seen++ % stride_ != 0) return;
  if (kept.size() == buckets_max) {
    for (size_t i = 0; 2 * i < kept.size(); ++i) kept[i] = kept[2 * i];
    kept.resize((kept.size() + 1) / 2);
    stride_ *= 2;
    if ((occupancy_.buckets_seen - 1) % stride_ != 0) return;
  }
  kept.push_back(shown);
}

// Adds to each bin the bytes times the part of the bin in which memory held them.
void OccupancyRecord::add_stage(BucketStage stage, double begin_s, double end_s, uint64_t bytes,
                                bool grows) {
  double begin = (begin_s - occupancy_.start_s) / occupancy_.bin_s;
  double end = (end_s - occupancy_.start_s) / occupancy_.bin_s;
  while (end > bins_max) {
    double_bins();
    begin /= 2;
    end /= 2;
  }
  std::vector<double>& bins = occupancy_.stage_bytes[static_cast<size_t>(stage)];
  for (double at = std::max(0.0, begin); at < end;) {
    const double next = std::min(std::floor(at) + 1, end);
    const double there = grows ? ((at + next) / 2 - begin) / (end - begin) : 1;
    bins[std::min(static_cast<size_t>(at), bins_max - 1)] +=
        static_cast<double>(bytes) * there * (next - at);
    at = next;
  }
}

void OccupancyRecord::double_bins() {
  for (std::vector<double>& bins : occupancy_.stage_bytes) {
    for (size_t i = 0; i < bins_max / 2; ++i) bins[i] = (bins[2 * i] + bins[2 * i + 1]) / 2;
    std::fill(bins.begin() + bins_max / 2, bins.end(), 0.0);
  }
  occupancy_.bin_s *= 2;
}

// Leaves out the bins behind the last bucket, and returns the buckets in the order of the output.
Occupancy OccupancyRecord::taken() {
  MutexLock lock(mutex_);
  Occupancy taken = std::exchange(occupancy_, {});
  expecting_ = false;
  stride_ = 1;
  size_t used = 0;
  for (const std::vector<double>& bins : taken.stage_bytes) {
    for (size_t i = used; i < bins.size(); ++i) used = bins[i] > 0 ? i + 1 : used;
  }
  for (std::vector<double>& bins : taken.stage_bytes) bins.resize(used);
  std::ranges::stable_sort(taken.buckets, {}, &Occupancy::Bucket::offset_bytes);
  return taken;
}

}  // namespace penstock::external
