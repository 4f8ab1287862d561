#include "trace/report/sort_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "trace/report/text.h"

namespace penstock::report {

std::string value_text(SortRun::Unit unit, std::optional<double> value) {
  if (!value) return "-";
  switch (unit) {
    case SortRun::Unit::seconds:
      return duration_text(*value);
    case SortRun::Unit::bytes:
      return bytes_text(*value);
    case SortRun::Unit::count:
      break;
  }
  return *value < 1e18 ? grouped(static_cast<uint64_t>(std::max(0.0, *value)))
                       : fmt::format("{:.3g}", *value);
}

bool SortRun::seeks_cost() const {
  constexpr double share_min = 0.01;
  return seeks.value_or(0) * seek_s.value_or(0) > share_min * seconds.value_or(0);
}

namespace {

// Returns how many neighbouring values become one.
size_t stride_of(size_t values, size_t points_max) {
  return std::max<size_t>(1, values / points_max + (values % points_max != 0));
}

std::vector<double> means_of(const std::vector<double>& values, size_t stride) {
  std::vector<double> means;
  for (size_t begin = 0; begin < values.size(); begin += stride) {
    const size_t end = std::min(begin + stride, values.size());
    double sum = 0;
    for (size_t i = begin; i < end; ++i) sum += values[i];
    means.push_back(sum / static_cast<double>(end - begin));
  }
  return means;
}

}  // namespace

external::Occupancy thinned(const external::Occupancy& occupancy, size_t points_max) {
  if (points_max == 0) return {};
  external::Occupancy thin{.start_s = occupancy.start_s,
                           .memory_bytes = occupancy.memory_bytes,
                           .buckets_seen = occupancy.buckets_seen};
  size_t bins = 0;
  for (const std::vector<double>& bytes : occupancy.stage_bytes)
    bins = std::max(bins, bytes.size());
  const size_t bin_stride = stride_of(bins, points_max);
  thin.bin_s = occupancy.bin_s * static_cast<double>(bin_stride);
  for (size_t stage = 0; stage < external::bucket_stages; ++stage)
    thin.stage_bytes[stage] = means_of(occupancy.stage_bytes[stage], bin_stride);
  const size_t bucket_stride = stride_of(occupancy.buckets.size(), points_max);
  for (size_t i = 0; i < occupancy.buckets.size(); i += bucket_stride)
    thin.buckets.push_back(occupancy.buckets[i]);
  return thin;
}

std::vector<external::Staircase> thinned(const std::vector<external::Staircase>& staircases,
                                         size_t points_max) {
  std::vector<external::Staircase> thin;
  if (points_max == 0) return thin;
  for (const external::Staircase& stairs : staircases) {
    const size_t points = std::max(stairs.measured_bytes.size(), stairs.predicted_bytes.size());
    const size_t stride = stride_of(points, points_max);
    thin.push_back({.title = stairs.title,
                    .streams = std::max<uint64_t>(stairs.streams, points),
                    .steps = stairs.steps,
                    .measured_bytes = means_of(stairs.measured_bytes, stride),
                    .predicted_bytes = means_of(stairs.predicted_bytes, stride)});
  }
  return thin;
}

std::array<double, external::bucket_stages> stage_shares(const external::Occupancy& occupancy) {
  std::array<double, external::bucket_stages> shares{};
  double all = 0;
  for (size_t stage = 0; stage < shares.size(); ++stage) {
    const std::vector<double>& bytes = occupancy.stage_bytes[stage];
    shares[stage] = std::accumulate(bytes.begin(), bytes.end(), 0.0);
    all += shares[stage];
  }
  for (double& share : shares) share = all > 0 ? share / all : 0;
  return shares;
}

TimeSpan time_span(const external::Occupancy& occupancy) {
  TimeSpan span{.begin_s = occupancy.start_s, .end_s = occupancy.start_s};
  for (const std::vector<double>& bytes : occupancy.stage_bytes) {
    span.end_s = std::max(span.end_s,
                          occupancy.start_s + static_cast<double>(bytes.size()) * occupancy.bin_s);
  }
  // The last bin may be incomplete: the picture ends when the last bucket was written.
  double written_s = 0;
  for (const external::Occupancy::Bucket& bucket : occupancy.buckets)
    written_s = std::max(written_s, bucket.written_s);
  if (written_s > span.end_s - 2 * occupancy.bin_s) span.end_s = std::min(span.end_s, written_s);
  return span;
}

uint64_t output_end_bytes(const external::Occupancy& occupancy) {
  uint64_t end_bytes = 0;
  for (const external::Occupancy::Bucket& bucket : occupancy.buckets)
    end_bytes = std::max(end_bytes, bucket.offset_bytes + bucket.bytes);
  return end_bytes;
}

}  // namespace penstock::report
