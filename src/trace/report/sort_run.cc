#include "trace/report/sort_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "trace/report/text.h"

namespace penstock::trace::report {

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
  // The last bin is only begun.
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

}  // namespace penstock::trace::report
