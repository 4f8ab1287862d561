#pragma once

// A trace over time: throughput, latencies, seeks and syncs in a fixed number of equal intervals
// (bins).
//
// Bytes are spread evenly over the time from a call's start to its end, so that one long call is a
// plateau and not a spike. Latencies and seeks belong to the bin in which the call started. For
// percentiles each bin has a histogram of eight buckets per power of two: a percentile is off by
// 6 % at most, the largest latency is exact.
//
// Memory: some 6 KiB per bin. Time: constant per request, and per bin that a call spans.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "penstock/trace.h"

namespace penstock::report {

struct Latencies {
  uint64_t requests = 0;
  uint64_t median_ns = 0, p99_ns = 0, max_ns = 0;
};

// A histogram of latencies, fine enough for percentiles.
class LatencyHistogram {
 public:
  void add(uint64_t ns);
  Latencies latencies() const;

  // Bucket k holds [floor_of(k), floor_of(k + 1)).
  static size_t bucket_of(uint64_t ns);
  static uint64_t floor_of(size_t bucket);

 private:
  static constexpr size_t buckets = 62 * 8;
  std::array<uint32_t, buckets> counts_{};
  uint64_t requests_ = 0;
  uint64_t max_ns_ = 0;
};

// Thread safety: none.
class Timeline {
 public:
  struct Bin {
    double read_bytes = 0, written_bytes = 0;
    uint64_t seeks = 0;  // requests with device_seek
    Latencies reads, writes, syncs;
  };

  Timeline() = default;
  // Makes a time line for requests and syncs that start and end in [start_ns, end_ns]. Others are in
  // its first or last bin.
  Timeline(uint64_t start_ns, uint64_t end_ns, size_t bins);
  void add(const trace::Request& request);
  void finish();  // computes the bins' latencies

  uint64_t start_ns() const { return start_ns_; }
  double bin_ns() const { return bin_ns_; }
  const std::vector<Bin>& bins() const { return bins_; }

 private:
  struct Histograms {
    LatencyHistogram reads, writes, syncs;
  };
  uint64_t start_ns_ = 0;
  double bin_ns_ = 1;
  std::vector<Bin> bins_;
  std::vector<Histograms> histograms_;  // [bins], freed by finish()
};

}  // namespace penstock::report
