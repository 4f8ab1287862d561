#pragma once

// The staircase that the buckets of a run really form, for comparison with the theorem's.
//
// At the beginning of a step all buckets are sorted by their bytes, and the k-th largest of all
// steps are averaged: figure 5 d of the paper. A step of the outputs begins when the first of a
// group is about to be written, a step of the inputs when they were just filled. Each record costs
// a sort of one side's levels, once for many megabytes that move.

#include <cstdint>
#include <vector>

#include "files/bowtie/scheduler.h"

namespace penstock::bowtie {

// Means over the recorded steps, bytes of each stream, largest first; empty if there were none.
struct MeasuredStairs {
  std::vector<double> bytes;
  uint64_t steps = 0;

  // Merges the steps of both. REQUIRES: the same number of streams, or none.
  void add(const MeasuredStairs& other);
};

// Thread safety: none.
class StaircaseRecord {
 public:
  // Records an action about to be carried out. `counts`: it belongs to the steady state. REQUIRES:
  // all views have the same streams.
  void note(const View& view, const Action& action, bool counts);

  MeasuredStairs inputs() const { return input_.mean(); }
  MeasuredStairs outputs() const { return output_.mean(); }

 private:
  struct Sums {
    std::vector<double> bytes;
    uint64_t steps = 0;
    std::vector<uint64_t> sorted;  // scratch space for sorting

    void add(std::span<const uint64_t> levels);
    MeasuredStairs mean() const;
  };
  Sums input_, output_;
  Action::Kind last_kind_ = Action::Kind::compute;
};

}  // namespace penstock::bowtie
