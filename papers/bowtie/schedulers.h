#pragma once

// Policies for comparison with those of src/files/bowtie/scheduler.h, in simulation and on devices.

#include <cstdint>
#include <deque>
#include <optional>

#include "files/bowtie/input_stairs.h"
#include "files/bowtie/scheduler.h"

namespace penstock::papers {

using namespace bowtie;

// The order of block-wise systems (STXXL, nsort): a block is read when the computation lacks it, at
// any place, and outputs are gathered until a batch is full. Read-ahead fetches the blocks sooner
// but in the same order, in which they will be needed, so the number of switches is the same.
class BlockScheduler final : public Scheduler {
 public:
  struct Options {
    uint32_t inputs = 0;
    uint64_t block_bytes = 0;
    uint64_t write_batch_bytes = 0;
  };
  explicit BlockScheduler(const Options& options);

  Action next(const View& view) override;

 private:
  std::deque<Action> queue_;
  bool started_ = false;
};

// A3 with the words of the paper (section III.C): the input that was streamed is refilled until the
// memory is full, not to one stair above the highest. A block is kept free for every other input,
// because otherwise the first refill would leave nothing for the next one. For inputs only.
class FillingScheduler final : public Scheduler {
 public:
  struct Options {
    uint32_t inputs = 0;
    uint64_t memory_bytes = 0;
    uint64_t block_bytes = 0;
  };
  explicit FillingScheduler(const Options& options);

  Action next(const View& view) override;

 private:
  InputStairs stairs_;  // for the preload, and for the room beside the others' blocks
  std::deque<Action> queue_;
  bool started_ = false;
  std::optional<uint32_t> streamed_;
};

}  // namespace penstock::papers
