#pragma once

// Disk profiles: the read and write speed of a stream, and the cost of switching to another one.
//
// The published profiles are starting points for plans and simulations. `penstock disk` measures a
// machine's own disk.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base.h"

namespace penstock {

// The switch delay delta(n, m): one number, or a table over the numbers of inputs and outputs.
//
// at() interpolates between the points of a table, linearly over log2(streams + 1), because delays
// change with the decade of the number of streams; outside of the table the nearest edge holds.
//
// Thread safety: a value; const members from any thread.
class SwitchDelay {
 public:
  SwitchDelay() = default;  // no delay
  explicit SwitchDelay(double seconds) : seconds_{seconds} {}

  // Builds a table from `seconds`, which has a row for each number of inputs with a value for each
  // number of outputs. Fails if the numbers do not rise, a value is negative or not finite, or the
  // count of values is wrong.
  static Result<SwitchDelay> table(std::vector<uint32_t> inputs, std::vector<uint32_t> outputs,
                                   std::vector<double> seconds);

  double at(uint32_t inputs, uint32_t outputs) const;

  // The table's contents, for storing it. A constant has no inputs, no outputs and one value.
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
  std::string source;               // origin of the numbers
  double read_bytes_per_s = 0;      // S_r
  double write_bytes_per_s = 0;     // S_w
  SwitchDelay switch_seconds = {};  // delta(n, m)
  uint64_t cache_bytes = 0;         // C: cache of the device and its controllers; 0 if unknown

  // Checks that the speeds are positive and the delay is not negative.
  Status check() const;
};

// Returns profiles of the array, a hard disk, a SATA SSD and an NVMe SSD.
std::span<const DeviceProfile> published_profiles();
// Returns nullptr if no published profile has this name.
const DeviceProfile* find_profile(std::string_view name);

// Returns the array of the Tuxedo paper (docs/bowtie.md), section VII.
const DeviceProfile& paper_array();
// Loads a profile by its short name (array24, hdd, sata-ssd, nvme), the name of a published
// profile, or the path of a file that `penstock disk -o` has written. Errors: not_found; corrupt,
// with the field and its fault.
Result<DeviceProfile> load_profile(const std::string& name);

}  // namespace penstock
