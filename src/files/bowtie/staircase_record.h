#pragma once

// What staircase the buckets of a run really form, for a look at it beside the theorem's.
//
// Where a step begins all buckets are sorted by their bytes, and the k-th largest of all steps are
// averaged: figure 5 d of the paper. Of outputs that is when the first of a group is about to be
// written, of inputs when they were just filled. A look costs a sort of one side's levels, once for
// many megabytes that move.

#include <cstdint>
#include <vector>

#include "files/bowtie/scheduler.h"

namespace penstock::bowtie {

// Means over the steps that were seen, bytes of each stream, largest first; empty: none was.
struct MeasuredStairs {
  std::vector<double> bytes;
  uint64_t steps = 0;

  // As if the steps of both had been seen. REQUIRES: of as many streams, or of none.
  void add(const MeasuredStairs& other);
};

// Thread safety: none.
class StaircaseRecord {
 public:
  // An action that is about to be carried out, of a run whose streams are always as many.
  // `counts`: it belongs to the steady state.
  void note(const View& view, const Action& action, bool counts);

  MeasuredStairs inputs() const { return input_.mean(); }
  MeasuredStairs outputs() const { return output_.mean(); }

 private:
  struct Sums {
    std::vector<double> bytes;
    uint64_t steps = 0;
    std::vector<uint64_t> sorted;  // room to sort in

    void add(std::span<const uint64_t> levels);
    MeasuredStairs mean() const;
  };
  Sums input_, output_;
  Action::Kind last_kind_ = Action::Kind::compute;
};

}  // namespace penstock::bowtie
