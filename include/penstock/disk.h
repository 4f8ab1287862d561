#pragma once

// What plans know about a disk: how fast it reads and writes a stream, and what it costs to go on to
// another one.
//
// The published profiles are starting points for plans and simulations. What a machine's own disk
// does, `penstock disk` measures.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base.h"

namespace penstock {

// The switch delay delta(n, m): one number, or a table over the numbers of inputs and outputs.
//
// Between the points of a table it is interpolated, linearly over log2(streams + 1), because delays
// change with the decade of the number of streams, not with the number; outside of it the nearest
// edge holds.
//
// Thread safety: a value; const members from any thread.
class SwitchDelay {
 public:
  SwitchDelay() = default;  // no delay
  explicit SwitchDelay(double seconds) : seconds_{seconds} {}

  // `seconds` has a row for each number of inputs, and in it a value for each number of outputs.
  // Fails where the numbers do not rise, a value is negative or not finite, or their count is
  // another.
  static Result<SwitchDelay> table(std::vector<uint32_t> inputs, std::vector<uint32_t> outputs,
                                   std::vector<double> seconds);

  double at(uint32_t inputs, uint32_t outputs) const;

  // For those who store it. A constant has no inputs and no outputs, and one value.
  std::span<const uint32_t> inputs() const { return inputs_; }
  std::span<const uint32_t> outputs() const { return outputs_; }
  std::span<const double> seconds() const { return seconds_; }

 private:
  std::vector<uint32_t> inputs_;
  std::vector<uint32_t> outputs_;
  std::vector<double> seconds_ = {0};
};

struct DeviceProfile {
  std::string name;
  std::string source;               // where the numbers are from
  double read_bytes_per_s = 0;      // S_r
  double write_bytes_per_s = 0;     // S_w
  SwitchDelay switch_seconds = {};  // delta(n, m)
  uint64_t cache_bytes = 0;         // C: of the device and its controllers; 0 if not known

  // Speeds that are positive, a delay that is not negative.
  Status check() const;
};

// The array, a hard disk, a SATA SSD and an NVMe SSD.
std::span<const DeviceProfile> published_profiles();
// nullptr if there is none of this name.
const DeviceProfile* find_profile(std::string_view name);

// The array of the Tuxedo paper (docs/bowtie.md), section VII.
const DeviceProfile& paper_array();
// By a short name (array24, hdd, sata-ssd, nvme), the name of a published profile, or a file that
// `penstock disk -o` has written. Errors: not_found; corrupt, with what is wrong in which field.
Result<DeviceProfile> load_profile(const std::string& name);

}  // namespace penstock
