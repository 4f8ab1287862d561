#include "trace/report/timeline.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/trials.h"
#include "trace/report/random_requests.h"

namespace penstock::report {
namespace {

TEST(LatencyHistogram, BucketsAreContiguousAndNarrow) {
  uint64_t last = 0;
  for (size_t k = 1; k < 480; ++k) {
    const uint64_t floor = LatencyHistogram::floor_of(k);
    ASSERT_GT(floor, last);
    ASSERT_EQ(LatencyHistogram::bucket_of(floor), k);
    ASSERT_EQ(LatencyHistogram::bucket_of(floor - 1), k - 1);
    if (last >= 16) {
      ASSERT_LE(static_cast<double>(floor - last) / static_cast<double>(last), 0.126);
    }
    last = floor;
  }
  LatencyHistogram histogram;
  histogram.add(~uint64_t{0});  // a hostile value stays within the arrays
  EXPECT_EQ(histogram.latencies().max_ns, ~uint64_t{0});
}

TEST(LatencyHistogram, PercentilesAreNearTheExactOnes) {
  const uint64_t seed = seed_of_run();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int round = 0; round < 100; ++round) {
    LatencyHistogram histogram;
    std::vector<uint64_t> all(1 + random.below(2000));
    for (uint64_t& ns : all) histogram.add(ns = random.below(uint64_t{1} << random.below(40)));
    std::ranges::sort(all);
    const Latencies found = histogram.latencies();
    auto near = [](uint64_t got, uint64_t wanted) {
      return static_cast<double>(got) <= static_cast<double>(wanted) * 1.07 + 1 &&
             static_cast<double>(got) >= static_cast<double>(wanted) * 0.93 - 1;
    };
    EXPECT_PRED2(near, found.median_ns, all[(all.size() - 1) / 2]);
    EXPECT_PRED2(near, found.p99_ns, all[(all.size() - 1) - (all.size() - 1) / 100]);
    EXPECT_EQ(found.max_ns, all.back());
    EXPECT_EQ(found.requests, all.size());
  }
}

TEST(Timeline, LosesNoBytesAndNoSeeks) {
  const uint64_t seed = seed_of_run();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int round = 0; round < 100; ++round) {
    const uint64_t start_ns = random.below(1000);
    const uint64_t end_ns = start_ns + random.below(1'000'000);
    Timeline timeline(start_ns, end_ns, 1 + random.below(100));
    double read_bytes = 0, written_bytes = 0;
    uint64_t seeks = 0;
    for (int i = 0; i < 200; ++i) {
      trace::Request request;
      request.start_ns = start_ns + random.below(end_ns - start_ns + 1);
      request.latency_ns = random.below(end_ns - request.start_ns + 1);
      request.bytes = 1 + random.below(1 << 20);
      request.access = random.below(2) == 0 ? trace::Access::read : trace::Access::write;
      request.device_seek = random.below(2) == 0;
      timeline.add(request);
      (request.access == trace::Access::read ? read_bytes : written_bytes) +=
          static_cast<double>(request.bytes);
      seeks += request.device_seek;
    }
    timeline.finish();
    double read_sum = 0, written_sum = 0;
    uint64_t seek_sum = 0, requests = 0;
    for (const Timeline::Bin& bin : timeline.bins()) {
      EXPECT_GE(bin.read_bytes, -1e-6);
      read_sum += bin.read_bytes;
      written_sum += bin.written_bytes;
      seek_sum += bin.seeks;
      requests += bin.reads.requests + bin.writes.requests;
    }
    EXPECT_NEAR(read_sum, read_bytes, read_bytes * 1e-9);
    EXPECT_NEAR(written_sum, written_bytes, written_bytes * 1e-9);
    EXPECT_EQ(seek_sum, seeks);
    EXPECT_EQ(requests, 200u);
  }
}

TEST(Timeline, ALongCallIsAPlateau) {
  Timeline timeline(0, 1000, 10);
  trace::Request request;
  request.start_ns = 150;
  request.latency_ns = 500;
  request.bytes = 5000;
  timeline.add(request);
  timeline.finish();
  const std::vector<double> wanted = {0, 500, 1000, 1000, 1000, 1000, 500, 0, 0, 0};
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(timeline.bins()[i].read_bytes, wanted[i], 1e-6) << i;
  }
  EXPECT_EQ(timeline.bins()[1].reads.max_ns, 500u);
}

}  // namespace
}  // namespace penstock::report
