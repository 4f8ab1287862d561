#pragma once

// How long a phase of a sort takes: what each resource would take alone, and all of them together.

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

// What a machine does, beside its disk. Seconds of one processor.
struct MachineRates {
  unsigned processors = 1;
  double touch_seconds_per_byte = 0;  // the first use of memory
  double request_seconds = 0;         // to submit a request, and to look after it
  // How long the disk rests where a request does not follow the one before it.
  double wake_seconds = 0;
  // The files lie in memory: what the disk takes the processors take.
  bool files_in_memory = false;
};

// What the items of an input take of one processor, in seconds a byte.
struct ItemRates {
  double split_seconds_per_byte = 0;
  double sort_seconds_per_byte = 0;  // of a bucket of sorted_bytes
  double sorted_bytes = 1;
};

// What a phase does beside its traffic.
struct PhaseWork {
  double processor_seconds = 0;  // of all threads together
  double lanes = 1;              // threads that share it evenly
  // What the threads do before the disk has anything to do, and those that share it. It is no part of
  // processor_seconds.
  double ahead_seconds = 0;
  double ahead_lanes = 1;
  uint64_t touched_bytes = 0;  // of memory that nobody has used yet
};

// A phase, and what it does beside its traffic.
struct Step {
  SortPhase phase;
  PhaseWork work = {};
  uint32_t inputs = 1;  // streams of the disk
  uint32_t outputs = 1;
};

// What one sort knows of the machine and of its items.
// Thread safety: one thread.
class Costs {
 public:
  Costs(Context& context, const SortInput& input,
        const std::optional<bowtie::DeviceProfile>& device);

  // Looks at the disk, where nobody said what it can do, at memory, and at items unless they are
  // copied. It takes 0.1 to 0.2 seconds on a fast disk. Where there is little to sort, or it is
  // passed over, what is usual has to do.
  void look(bool passed_over, bool copied);
  // Nothing: nobody looked at it.
  const std::optional<bowtie::DeviceProfile>& device() const { return device_; }
  // What a trial of compression told, for those who plan the same with other budgets.
  std::optional<CompressionTrial> compression;
  // So that small sorts have a prediction, too.
  void assume_disk();

  // To distribute; to sort the buckets of that, and write them; to look whether everything is in
  // order; to merge.
  PhaseWork split_work(const SortPhase& phase, const BucketPlan& plan) const;
  PhaseWork sort_work(const SortPhase& phase, const BucketPlan& plan) const;
  PhaseWork look_work() const;
  PhaseWork merge_work() const;
  // Whether compression may save more time than its looks at the input take, each of which is a seek.
  // REQUIRES: a device.
  bool pays_to_try_compression(uint64_t spilled_bytes) const;

  // Fills in what the resources take, what bounds the phase, and its seconds. REQUIRES: a device.
  void predict(Step& step) const { predict(step, machine_); }
  double seconds_of(Step step) const;
  // With memory that the host of a virtual machine has to find first.
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
