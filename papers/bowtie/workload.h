#pragma once

// The shares in which a simulated computation consumes its inputs and fills its outputs: they hold
// for some bytes, then others follow. The simulator needs no items, only these.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/random.h"
#include "files/bowtie/scheduler.h"

namespace penstock::papers {

using namespace bowtie;

// For the next `bytes` (consumed and produced together) input i has inputs[i] of the bytes consumed
// and output j has outputs[j] of those produced. The simulator leaves out an input that has nothing
// left and scales the others up.
struct Phase {
  std::vector<double> inputs;   // at least one that has not ended is positive
  std::vector<double> outputs;  // at least one is positive
  double bytes = 0;             // positive; may be infinite
};

// Thread safety: none. Deterministic: the same calls give the same phases.
class Workload {
 public:
  virtual ~Workload() = default;
  // `phase` has the right sizes and contains the last phase. The view's stall is not set.
  virtual void next(const View& view, Phase& phase) = 0;
};

struct WorkloadOptions {
  uint32_t inputs = 0;
  uint32_t outputs = 0;
  uint64_t seed = 1;
  // Shares are proportional to these, equal if empty. A merge of files of random keys drains them
  // in proportion to their sizes.
  std::vector<double> input_weights;
  std::vector<double> output_weights;
};

// Items that fall on streams at random, each with its share: after `phase_bytes` the counts differ
// from it like those of throws with items of `item_bytes`. phase_bytes = 0: the exact shares.
std::unique_ptr<Workload> uniform_workload(const WorkloadOptions& options, double phase_bytes,
                                           double item_bytes);
// Shares of Zipf's law: the k-th stream (in an order from the seed) has 1 / k^exponent.
std::unique_ptr<Workload> skewed_workload(const WorkloadOptions& options, double exponent);
// Bursts: for about `burst_bytes` (exponential) one random input and one random output have
// `burst_share`, the others the rest.
std::unique_ptr<Workload> bursty_workload(const WorkloadOptions& options, double burst_bytes,
                                          double burst_share);
// Runs that were in order before: one input drains alone until it ends, then the next; one output
// fills alone for `output_bytes` each.
std::unique_ptr<Workload> sorted_runs_workload(const WorkloadOptions& options, double output_bytes);

}  // namespace penstock::papers
