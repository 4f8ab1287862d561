#pragma once

// Seconds of a phase of a sort: of each resource alone, and of all of them together.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "files/bowtie/device_profile.h"
#include "files/sort/context.h"
#include "files/sort/plan/bucket_plan.h"
#include "files/sort/plan/sort_input.h"
#include "files/sort/spill/spill_codec.h"

namespace penstock::external {

// Costs of the machine beside its disk, in seconds of one processor.
struct MachineRates {
  unsigned processors = 1;
  double touch_seconds_per_byte = 0;  // the first use of memory
  double request_seconds = 0;         // to submit a request and complete it
  // Delay before a waiting thread runs again, for a request that is not adjacent to the one before.
  double wake_seconds = 0;
  // Whether the files lie in memory, so that the processors do the disk's work.
  bool files_in_memory = false;
};

// Costs of an input's items, in seconds of one processor for a byte.
struct ItemRates {
  double split_seconds_per_byte = 0;
  double sort_seconds_per_byte = 0;  // for a bucket of sorted_bytes
  double sorted_bytes = 1;
};

// Work of a phase beside its disk traffic.
struct PhaseWork {
  double processor_seconds = 0;  // sum over all threads
  double lanes = 1;              // threads that share the work evenly
  // Work before the disk starts, not in processor_seconds, and the threads that share it.
  double ahead_seconds = 0;
  double ahead_lanes = 1;
  uint64_t touched_bytes = 0;  // memory that is used for the first time
};

// A phase with its traffic and its work.
struct Step {
  SortPhase phase;
  PhaseWork work = {};
  uint32_t inputs = 1;  // disk streams that are read
  uint32_t outputs = 1;
};

// Costs of one sort on this machine. Thread safety: one thread.
class Costs {
 public:
  Costs(Context& context, const SortInput& input,
        const std::optional<bowtie::DeviceProfile>& device);

  // Measures the disk if no device is given, the first use of memory, and the items unless they are
  // only copied. It takes 0.1 to 0.2 seconds on a fast disk. It uses typical costs instead if the
  // input is small or `passed_over`.
  void look(bool passed_over, bool copied);
  // The given or measured device; nullopt if there is neither.
  const std::optional<bowtie::DeviceProfile>& device() const { return device_; }
  // Result of the compression trial, which plans with other budgets reuse.
  std::optional<CompressionTrial> compression;
  // Assumes a typical disk, so that small sorts have a prediction, too.
  void assume_disk();

  // Work of the distribution, of its buckets' sort, of the check of its order, of the merge.
  PhaseWork split_work(const SortPhase& phase, const BucketPlan& plan) const;
  PhaseWork sort_work(const SortPhase& phase, const BucketPlan& plan) const;
  PhaseWork look_work() const;
  PhaseWork merge_work() const;
  // Whether compression may save more time than its trial takes, which seeks for each sample of the
  // input. REQUIRES: a device.
  bool pays_to_try_compression(uint64_t spilled_bytes) const;

  // Sets the resources' times of the step, what bounds it, and its seconds. REQUIRES: a device.
  void predict(Step& step) const { predict(step, machine_); }
  double seconds_of(Step step) const;
  // Seconds if the host of a virtual machine has to find the memory first.
  double seconds_at_most(Step step) const;

 private:
  unsigned looks() const;
  void look_at_disk();
  void predict(Step& step, const MachineRates& machine) const;
  double lanes(double most) const;
  double seconds_of_requests(const SortPhase& phase, uint64_t request_bytes) const;
  const std::string& directory() const { return directories_.front(); }

  Context& context_;
  const SortOptions& options_;
  const SortInput& input_;
  const std::vector<std::string> directories_;
  std::optional<bowtie::DeviceProfile> device_;
  MachineRates machine_;
  ItemRates items_;
};

}  // namespace penstock::external
