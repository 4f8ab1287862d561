#include "files/sort/occupancy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "base/random.h"

namespace penstock::external {
namespace {

using Clock = OccupancyRecord::Clock;
using std::chrono::microseconds;

double area(const std::vector<double>& bins, double bin_s) {
  return std::accumulate(bins.begin(), bins.end(), 0.0) * bin_s;
}

// A bucket that is read, and in the same moment sorted and written.
OccupancyRecord::BucketTimes bucket(uint64_t bytes, Clock::time_point begin,
                                    Clock::time_point read) {
  return {.bytes = bytes,
          .region_bytes = bytes,
          .begin = begin,
          .read = read,
          .waited = read,
          .sorted = read,
          .written = read};
}

TEST(Occupancy, IsEmptyWithoutBuckets) {
  OccupancyRecord record;
  EXPECT_EQ(record.taken().buckets_seen, 0u);
  record.expect_buckets(100);
  const Occupancy taken = record.taken();
  EXPECT_EQ(taken.memory_bytes, 100u);
  EXPECT_TRUE(taken.buckets.empty());
  for (const auto& bins : taken.stage_bytes) EXPECT_TRUE(bins.empty());
}

// The memory of an input that is read first counts, and the first bucket begins with it.
TEST(Occupancy, BeginsWithTheInputIfThatIsReadFirst) {
  OccupancyRecord record;
  const Clock::time_point before = Clock::now();
  record.expect_input(200);
  const Clock::time_point after = Clock::now();
  while (Clock::now() == after) {
  }
  const Clock::time_point since = record.expect_buckets(100);
  EXPECT_GE(since, before);
  EXPECT_LE(since, after);
  EXPECT_GT(record.expect_buckets(100), after);
  EXPECT_EQ(record.taken().memory_bytes, 200u);
}

// The sum of bytes times seconds is right for a sort of any length, and the record does not grow.
TEST(Occupancy, KeepsTheSumOfAllStagesAndTheTimesOfBuckets) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (const uint64_t count : {uint64_t{1}, uint64_t{10}, uint64_t{3000}}) {
    OccupancyRecord record;
    record.expect_buckets(1 << 30);
    const Clock::time_point start = Clock::now();
    std::array<double, bucket_stages> wanted{};
    uint64_t offset = 0;
    for (uint64_t i = 0; i < count; ++i) {
      std::array<Clock::time_point, 5> at;
      at[0] = start + microseconds(random.below(100'000) + i * 1000);
      for (size_t stage = 0; stage < bucket_stages; ++stage)
        at[stage + 1] = at[stage] + microseconds(random.below(20'000));
      const uint64_t bytes = 1 + random.below(1 << 20);
      record.add({.offset_bytes = offset,
                  .bytes = bytes,
                  .region_bytes = bytes + 4096,
                  .begin = at[0],
                  .read = at[1],
                  .waited = at[2],
                  .sorted = at[3],
                  .written = at[4]});
      for (size_t stage = 0; stage < bucket_stages; ++stage) {
        wanted[stage] += static_cast<double>(bytes + 4096) *
                         std::chrono::duration<double>(at[stage + 1] - at[stage]).count();
      }
      offset += bytes;
    }
    const Occupancy taken = record.taken();
    for (size_t stage = 0; stage < bucket_stages; ++stage) {
      EXPECT_NEAR(area(taken.stage_bytes[stage], taken.bin_s), wanted[stage],
                  1e-6 * wanted[stage] + 1e-3);
      EXPECT_LE(taken.stage_bytes[stage].size(), OccupancyRecord::bins_max);
    }
    EXPECT_EQ(taken.buckets_seen, count);
    EXPECT_LE(taken.buckets.size(), OccupancyRecord::buckets_max);
    EXPECT_GE(taken.buckets.size(), std::min<uint64_t>(count, OccupancyRecord::buckets_max / 2));
    EXPECT_TRUE(std::ranges::is_sorted(taken.buckets, {}, &Occupancy::Bucket::offset_bytes));
    for (const Occupancy::Bucket& shown : taken.buckets) {
      EXPECT_LE(shown.begin_s, shown.read_s);
      EXPECT_LE(shown.sorted_s, shown.written_s);
    }
  }
}

// Memory is half full on average, from expect_input() on.
TEST(Occupancy, MemoryThatFillsEvenlyIsARamp) {
  OccupancyRecord record;
  record.expect_input(1000);
  const Clock::time_point since = record.expect_buckets(1000);
  const Clock::time_point begin = since + microseconds(100'000);
  auto growing = bucket(1000, begin, begin + microseconds(200'000));
  growing.grows = true;
  record.add(growing);
  const Occupancy taken = record.taken();
  const std::vector<double>& reading = taken.stage_bytes[0];
  EXPECT_NEAR(area(reading, taken.bin_s), 100, 0.1);
  ASSERT_GE(reading.size(), 150u);
  EXPECT_EQ(reading[40], 0);
  EXPECT_NEAR(reading[100], 1000 * 50.5 * taken.bin_s / 0.2, 10);
  // Nothing is known of the next input.
  EXPECT_GT(record.expect_buckets(1000), since);
}

// The kept buckets are evenly spaced among all buckets.
TEST(Occupancy, KeepsEveryFewthBucket) {
  OccupancyRecord record;
  record.expect_buckets(1);
  const Clock::time_point now = Clock::now();
  for (uint64_t i = 0; i < 1000; ++i) {
    auto next = bucket(1, now, now);
    next.offset_bytes = i;
    record.add(next);
  }
  const Occupancy taken = record.taken();
  for (size_t i = 1; i < taken.buckets.size(); ++i)
    EXPECT_EQ(taken.buckets[i].offset_bytes - taken.buckets[i - 1].offset_bytes, 4u);
  EXPECT_EQ(taken.buckets.size(), 250u);
}

TEST(Occupancy, ManyThreadsAddBuckets) {
  OccupancyRecord record;
  record.expect_buckets(1 << 20);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        const auto now = Clock::now();
        record.add(bucket(1, now, now));
      }
    });
  }
  threads.clear();
  const Occupancy taken = record.taken();
  EXPECT_EQ(taken.buckets_seen, 4000u);
}

}  // namespace
}  // namespace penstock::external
