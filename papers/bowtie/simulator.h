#pragma once

// Runs a policy on an imagined device: terabytes in seconds, with the same result every time.
//
// The simulator moves neither items nor blocks. Between two events (a bucket runs empty, the memory
// is full, the workload changes its shares) everything is linear in the bytes that pass: buckets of
// inputs fall by their shares, those of outputs rise by theirs. So the simulator jumps from event
// to event, at O(n + m) each, and the number of events depends on the number of runs, not of bytes.
//
// The computation is infinitely fast, as in the paper's theory: it runs until it stalls, before the
// device moves a byte. During an overlapped read it advances with the bytes that arrive, each of
// which lets it consume 1 / share of the streamed input in all; during an overlapped write with the
// bytes that leave. For times it may have a speed: an overlapped action takes the longer of both,
// others the sum.
//
// A switch is counted when the device moves bytes of another stream than last time. Within a stream
// offsets always continue, so these are all seeks.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "files/bowtie/device_profile.h"
#include "files/bowtie/planner.h"
#include "files/bowtie/scheduler.h"
#include "papers/bowtie/workload.h"

namespace penstock::papers {

struct SimulationOptions {
  // Bytes of each input; of all outputs, if there is no input.
  std::vector<uint64_t> input_bytes;
  uint64_t produced_bytes = 0;  // without inputs; otherwise theirs times (1 - alpha) / alpha
  uint32_t outputs = 0;
  double input_share = 0.5;               // alpha
  const DeviceProfile* device = nullptr;  // for seconds; nullptr: no seconds
  double compute_bytes_per_s = 0;         // consumed and produced; 0: infinitely fast
  // The steady state is what passes between these parts of the whole.
  double steady_from = 0.3;
  double steady_to = 0.9;
  bool record_staircases = false;
  uint64_t seed = 0;  // the workload's, copied to the result
  // Called with each action before it is carried out.
  std::function<void(const View&, const Action&)> observe;
};

struct SimulationResult {
  uint64_t seed = 0;
  double read_bytes = 0;
  double written_bytes = 0;
  uint64_t read_switches = 0;
  uint64_t write_switches = 0;
  uint64_t actions = 0;
  double run_bytes = 0;         // mean, over everything
  double steady_run_bytes = 0;  // mean, in the steady state; 0 if that had no two runs
  double run_bytes_min = 0;
  double run_bytes_max = 0;
  double seconds = 0;                  // equation 1, and the computation's additional time
  double seconds_computing_alone = 0;  // the device idle
  // Mean occupancies in the steady state, largest first: of inputs when they were just filled, of
  // outputs when the first write of a step begins.
  std::vector<double> input_staircase;
  std::vector<double> output_staircase;
  uint64_t input_bytes_peak = 0;
  uint64_t output_bytes_peak = 0;
  // Whether the policy repeated actions that move nothing, which only a wrong one does.
  bool stuck = false;

  uint64_t switches() const { return read_switches + write_switches; }
};

SimulationResult simulate(Scheduler& scheduler, Workload& workload,
                          const SimulationOptions& options);

// One bowtie under the policy of a schedule, with inputs of equal size and items that fall on
// streams at random.
struct BowtieRun {
  double bytes = 0;  // read and written
  uint64_t seed = 1;
  const DeviceProfile* device = nullptr;
  bool record_staircases = false;
  // No noise of random items: every stream has exactly its share at every time.
  bool exact_shares = false;
};
Result<SimulationResult> simulate(const Schedule& schedule, const BowtieRun& run);

// All passes of a plan, bowtie after bowtie (one of each pass, times their number).
struct PlanSimulation {
  uint32_t passes = 0;
  double read_bytes = 0;
  double written_bytes = 0;
  double switches = 0;
  double seconds = 0;
};
Result<PlanSimulation> simulate(const Plan& plan, const DeviceProfile& device, uint64_t seed);

// A merge as in block-wise systems (BlockScheduler, schedulers.h), in passes whose inputs are
// merged at most `fan_in_max` at a time.
struct BlockMerge {
  uint64_t bytes = 0;  // bytes of the input
  uint32_t runs = 0;
  uint64_t block_bytes = 0;
  uint64_t write_batch_bytes = 0;
  // Runs merged at a time, pass by pass: STXXL's rule, or the fewest passes.
  uint32_t fan_in_max = 0;
  enum class Rule {
    equal_passes,  // STXXL: gamma = passes that are needed, runs^(1 / gamma) at a time in each
    few_first,     // nsort-like: merge as few as necessary, then all the others with them
  } rule = Rule::equal_passes;
  uint64_t seed = 1;
};
struct BlockMergeResult {
  double moved_bytes = 0;  // read and written: omega
  double passes = 0;       // d = omega / (2 bytes)
  double switches = 0;
};
BlockMergeResult simulate(const BlockMerge& merge);

// The merge phases of the two rivals of section VII.B, for a sort of `bytes` with `memory_bytes`.
//
// STXXL: blocks of 2 MiB; half of the memory for sorting, so that there are 2 bytes / memory runs;
// all of them at once if a block of each fits the memory, else sqrt of them; a quarter of the half
// that reads ahead, an eighth of the memory, gathers writes.
BlockMerge stxxl_merge(uint64_t bytes, uint64_t memory_bytes);
// Something like nsort, whose code is closed: the statements of table I and the first row of table
// II (178 times Tuxedo's), with round numbers. Runs of 98 % of the memory; blocks of 1 MiB; writes
// gathered to 3 MiB for each GiB of memory; 320 MiB for itself and 16 MiB for each run that is
// being merged, so that large inputs are merged partly twice.
BlockMerge nsort_like_merge(uint64_t bytes, uint64_t memory_bytes);

}  // namespace penstock::papers
