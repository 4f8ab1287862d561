#include "trace/report/timeline.h"

#include <algorithm>
#include <bit>

namespace penstock::report {

size_t LatencyHistogram::bucket_of(uint64_t ns) {
  if (ns < 16) return ns;  // the first two rows of eight are exact
  const auto octave = static_cast<size_t>(std::bit_width(ns)) - 4;  // 1 for [16, 32)
  return (octave + 1) * 8 + ((ns >> octave) & 7);
}

uint64_t LatencyHistogram::floor_of(size_t bucket) {
  if (bucket < 16) return bucket;
  const size_t octave = bucket / 8 - 1;
  return (8 + bucket % 8) << octave;
}

void LatencyHistogram::add(uint64_t ns) {
  ++counts_[std::min(bucket_of(ns), buckets - 1)];
  ++requests_;
  max_ns_ = std::max(max_ns_, ns);
}

Latencies LatencyHistogram::latencies() const {
  // Returns the middle of the bucket that contains the request of this rank.
  auto percentile = [&](uint64_t rank) -> uint64_t {
    uint64_t seen = 0;
    for (size_t k = 0; k < buckets; ++k) {
      seen += counts_[k];
      if (seen > rank) {
        const uint64_t low = floor_of(k);
        return std::min(max_ns_, low + (floor_of(k + 1) - low) / 2);
      }
    }
    return max_ns_;
  };
  if (requests_ == 0) return {};
  return {.requests = requests_,
          .median_ns = percentile((requests_ - 1) / 2),
          .p99_ns = percentile((requests_ - 1) - (requests_ - 1) / 100),
          .max_ns = max_ns_};
}

Timeline::Timeline(uint64_t start_ns, uint64_t end_ns, size_t bins)
    : start_ns_(start_ns),
      bin_ns_(std::max(1.0, static_cast<double>(end_ns - start_ns) / static_cast<double>(bins))),
      bins_(bins),
      histograms_(bins) {}

void Timeline::add(const trace::Request& request) {
  const double last = static_cast<double>(bins_.size()) - 1;
  auto place = [&](double ns) { return std::clamp(ns / bin_ns_, 0.0, last + 1); };
  const double start =
      request.start_ns <= start_ns_ ? 0 : place(static_cast<double>(request.start_ns - start_ns_));
  const double end = place(start * bin_ns_ + static_cast<double>(request.latency_ns));
  const auto first_bin = static_cast<size_t>(std::min(start, last));
  const auto last_bin = static_cast<size_t>(std::min(end, last));

  Histograms& histograms = histograms_[first_bin];
  if (request.is_sync()) {
    histograms.syncs.add(request.latency_ns);
    return;
  }
  const bool is_read = request.access == trace::Access::read;
  auto add_bytes = [&](size_t bin, double bytes) {
    (is_read ? bins_[bin].read_bytes : bins_[bin].written_bytes) += bytes;
  };
  const auto bytes = static_cast<double>(request.bytes);
  if (first_bin == last_bin || end <= start) {
    add_bytes(first_bin, bytes);
  } else {
    const double bytes_per_bin = bytes / (end - start);
    add_bytes(first_bin, bytes_per_bin * (static_cast<double>(first_bin + 1) - start));
    for (size_t bin = first_bin + 1; bin < last_bin; ++bin) add_bytes(bin, bytes_per_bin);
    add_bytes(last_bin, bytes_per_bin * (end - static_cast<double>(last_bin)));
  }
  bins_[first_bin].seeks += request.device_seek;
  (is_read ? histograms.reads : histograms.writes).add(request.latency_ns);
}

void Timeline::finish() {
  for (size_t bin = 0; bin < bins_.size(); ++bin) {
    bins_[bin].reads = histograms_[bin].reads.latencies();
    bins_[bin].writes = histograms_[bin].writes.latencies();
    bins_[bin].syncs = histograms_[bin].syncs.latencies();
  }
  histograms_ = {};
}

}  // namespace penstock::report
