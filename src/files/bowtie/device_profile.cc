#include "files/bowtie/device_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "penstock/base.h"

namespace penstock {
namespace {

bool rises(const std::vector<uint32_t>& numbers) {
  return !numbers.empty() && std::is_sorted(numbers.begin(), numbers.end()) &&
         std::adjacent_find(numbers.begin(), numbers.end()) == numbers.end();
}

// A position among rising numbers of streams: the point below, and the way to the next.
struct GridPosition {
  size_t below;
  double part;  // share of the distance, from 0 to 1
};

GridPosition position_in(const std::vector<uint32_t>& points, uint32_t streams) {
  if (streams <= points.front()) return {0, 0};
  if (streams >= points.back()) return {points.size() - 1, 0};
  const auto above = std::upper_bound(points.begin(), points.end(), streams) - points.begin();
  const auto below = static_cast<size_t>(above) - 1;
  const double low = std::log2(points[below] + 1.0);
  const double high = std::log2(points[below + 1] + 1.0);
  return {below, (std::log2(streams + 1.0) - low) / (high - low)};
}

DeviceProfile published(std::string name, std::string source, double read_bytes_per_s,
                        double write_bytes_per_s, double switch_seconds, uint64_t cache_bytes) {
  return {std::move(name),   std::move(source),           read_bytes_per_s,
          write_bytes_per_s, SwitchDelay(switch_seconds), cache_bytes};
}

const std::array<DeviceProfile, 4>& profiles() {
  static const std::array<DeviceProfile, 4> all = {
      // The paper prints two throughputs of its example (13 binary passes at 273 MB/s, one pass of
      // 8,000 files at 208 MB/s, M = 8 GB, runs of theorem 7). Solving equation 2 for its two
      // unknowns gives the speed and the delay. The paper's own curve is measured and not constant:
      // for distributions its table III asks for 14 to 26 ms.
      published("paper-array",
                "24 disks, RAID-50, 2 controllers: Stella and Loguinov, On High-Latency Bowtie "
                "Data Streaming, 2022, section V.A, solved for speed and delay",
                3.55e9, 3.55e9, 9e-3, 2 * GiB),
      // Sustained 205 MB/s: HGST Ultrastar He8, 8 TB, data sheet. A seek of 7.8 ms (7.4 for reads,
      // 8.2 for writes) and half a turn, 4.16 ms: Western Digital Ultrastar DC HC310, OEM
      // specification 1.4, tables 5 and 7; 7200 turns a minute in both.
      published("hard-disk",
                "7200 rpm, 8 TB: data sheet of the HGST Ultrastar He8 (205 MB/s), seek and turn of "
                "the specification of the Ultrastar DC HC310 (7.8 + 4.16 ms)",
                205e6, 205e6, 12e-3, 128 * MiB),
      // 13,000 random reads a second, one at a time, are 77 us each: the most that a switch can
      // cost a reader that waits for it. With several requests in flight it is not seen at all.
      published("sata-ssd",
                "Samsung 870 EVO 1 TB, data sheet: 560 and 530 MB/s, 13,000 random reads/s one at "
                "a time",
                560e6, 530e6, 77e-6, 1 * GiB),
      // 22,000 random reads a second, one at a time: 45 us.
      published("nvme-ssd",
                "Samsung 980 PRO 1 TB, data sheet: 7,000 and 5,000 MB/s, 22,000 random reads/s one "
                "at a time",
                7e9, 5e9, 45e-6, 1 * GiB),
  };
  return all;
}

}  // namespace

Result<SwitchDelay> SwitchDelay::table(std::vector<uint32_t> inputs, std::vector<uint32_t> outputs,
                                       std::vector<double> seconds) {
  const char* attempted = "read a table of switch delays";
  if (!rises(inputs) || !rises(outputs)) {
    return failure(ErrorCode::invalid_argument, attempted, "inputs, outputs",
                   "numbers of streams must rise");
  }
  if (seconds.size() != inputs.size() * outputs.size()) {
    return failure(ErrorCode::invalid_argument, attempted, "seconds",
                   fmt::format("give {} x {} values", inputs.size(), outputs.size()));
  }
  if (!std::all_of(seconds.begin(), seconds.end(),
                   [](double value) { return std::isfinite(value) && value >= 0; })) {
    return failure(ErrorCode::invalid_argument, attempted, "seconds",
                   "a delay is finite and not negative");
  }
  SwitchDelay delay;
  delay.inputs_ = std::move(inputs);
  delay.outputs_ = std::move(outputs);
  delay.seconds_ = std::move(seconds);
  return delay;
}

double SwitchDelay::at(uint32_t inputs, uint32_t outputs) const {
  if (inputs_.empty()) return seconds_.front();
  const GridPosition row = position_in(inputs_, inputs);
  const GridPosition column = position_in(outputs_, outputs);
  const size_t width = outputs_.size();
  auto across = [&](size_t line) {
    const double left = seconds_[line * width + column.below];
    if (column.part == 0) return left;
    return left + column.part * (seconds_[line * width + column.below + 1] - left);
  };
  const double low = across(row.below);
  return row.part == 0 ? low : low + row.part * (across(row.below + 1) - low);
}

Status DeviceProfile::check() const {
  auto usable = [](double speed) { return speed > 0 && speed <= bowtie::believable_bytes_per_s; };
  if (!usable(read_bytes_per_s) || !usable(write_bytes_per_s)) {
    return failure(ErrorCode::invalid_argument, "use a device profile", name,
                   "read and write speed must be positive, and below memory's (1000 GB/s)");
  }
  for (double seconds : switch_seconds.seconds()) {
    if (!std::isfinite(seconds) || seconds < 0) {
      return failure(ErrorCode::invalid_argument, "use a device profile", name,
                     "the switch delay must not be negative");
    }
  }
  return {};
}

std::span<const DeviceProfile> published_profiles() {
  return profiles();
}

const DeviceProfile* find_profile(std::string_view name) {
  for (const DeviceProfile& profile : profiles()) {
    if (profile.name == name) return &profile;
  }
  return nullptr;
}

const DeviceProfile& paper_array() {
  return profiles().front();
}

}  // namespace penstock
