#pragma once

// Which stream the device works on next: the paper's algorithms A1 to A6 as policies.
//
// The *driver* moves the bytes (a simulator, or the executor with real files). It owns the buckets,
// one per stream, and runs the computation. Whenever the device is idle it asks the policy, and
// carries out the one action of the answer:
//
//   while (true) {
//     Action action = scheduler->next(view);
//     if (action.kind == Action::Kind::finish) break;
//     perform(action);
//   }
//
// The view is a snapshot of levels, not of edges: the bytes in each bucket, and what the
// computation is waiting for *now*. An event can thus neither be lost nor be seen twice, and asking
// a policy again without need is harmless. The paper's events are the values of `View::stall`:
// input i ran empty, the output memory is full, everything is computed; an input has ended if
// `input_left_bytes[i] == 0`.
//
// A driver keeps these rules:
// 1. Buckets stay within the policy's limits: never more than `layout().output_memory_bytes` in all
//    outputs (the computation stalls before), never more in an input than an action allowed.
// 2. The computation runs during overlapped actions and during `compute`, and not otherwise, unless
//    RunOptions::never_rests is set.
// 3. A driver that moves whole blocks may read or write less than the action's bytes, by less than
//    `layout().block_bytes`, but not zero: it moves at least a block if there is one. A rest of a
//    bucket smaller than that is written at the end.
//
// The gain of each algorithm is in model.h, the upkeep of the staircase in input_stairs.h.

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "files/bowtie/input_stairs.h"
#include "files/bowtie/model.h"
#include "penstock/base.h"

namespace penstock::bowtie {

// The reason why the computation waits.
enum class Stall {
  none,      // it does not wait
  input,     // for one input, whose bucket is empty and which has not ended
  outputs,   // for room in the memory of the outputs
  finished,  // all inputs are consumed, all outputs produced
};

struct View {
  std::span<const uint64_t> input_bytes;           // read, not yet consumed
  std::span<const uint64_t> input_left_bytes;      // not yet read, if known; 0: ended
  std::span<const uint64_t> input_consumed_bytes;  // so far
  std::span<const uint64_t> output_bytes;          // produced, not yet written
  Stall stall = Stall::none;
  uint32_t stalled_input = 0;  // if stall == input
  bool more_comes = false;     // from inputs without offsets
};

struct Action {
  enum class Kind {
    read,     // from input `stream`
    write,    // to output `stream`
    compute,  // let the computation run until it stalls
    finish,   // everything is written
  };
  Kind kind = Kind::compute;
  uint32_t stream = 0;
  // Not overlapped: number of bytes, or until the stream ends (the bucket is empty).
  // Overlapped read: the bucket may fill up to `bytes`, until the computation waits for anything
  // else than this stream, or the stream ends.
  // Overlapped write: unused; ends when the bucket is empty, or the computation waits for an input
  // or has finished.
  uint64_t bytes = 0;
  bool overlapped = false;
  // For an overlapped write: an empty bucket does not end it. (There is no other output.)
  bool stay = false;
};

// A policy's division of the memory.
struct Layout {
  uint64_t input_memory_bytes = 0;   // M_r
  uint64_t output_memory_bytes = 0;  // M_w
  uint64_t block_bytes = 0;          // the least that a read moves
};

// Thread safety: none; the driver calls from one thread.
class Scheduler {
 public:
  virtual ~Scheduler() = default;
  virtual Action next(const View& view) = 0;
  const Layout& layout() const { return layout_; }

 protected:
  explicit Scheduler(Layout layout) : layout_(layout) {}
  Layout layout_;
};

// All of A1 to A6: a policy for the inputs beside one for the outputs.
//
// A2, A4, A5 and A6 are made of parts, as the paper itself says (section IV): the reader of A3 or
// of A4, beside the writer of A1 or of A2. So there is one class, not one per algorithm. A side
// either *overlaps*, that is, the computation runs while the device works on its streams, one after
// the other; or it is *grouped*, that is, the computation rests while c of its streams are visited.
// Both sides cannot overlap at once, because the device works on one stream at a time.
//
//                         no writer   overlapped writer   grouped writer
//     no reader                       A1
//     overlapped reader   A3                              A2 (n = 1), A6r
//     grouped reader                  A4 (m = 1), A6w     A5
//
// The actions:
//
//   the computation waits for ..   overlapped reader            grouped reader
//   input i, being streamed        go on streaming it
//   input i, another one           fill the streamed one to     write the rest of the output
//                                  its stair; write a group     being written (no switch); write a
//                                  if due; stream i             group if due; load i's group
//   the outputs' memory            fill the streamed one;       write the largest output, or a
//                                  write a group                group
//   nothing                        let it run                   let it run
//   finished                       write every bucket, largest first
//
// In the ideal steady state the memory of the outputs is full at the very moment when an input runs
// empty: memory is divided so that both sides need the same number of bytes for a step. Real data
// wander around that. "If due" keeps the two in step: when the device leaves an input, a group is
// written too if it holds half of a step's bytes; otherwise the visit that is needed a little later
// would cost an extra switch back. For the outputs that is harmless: writing early leaves room, and
// the next group is larger. For the inputs it is not: loaded early they find the others still full,
// get less, and run empty sooner; since both sides have the same period this would happen at every
// step (up to a tenth of the run length was lost in simulation). So inputs are loaded when one is
// empty, never before, and they give a quarter of a per cent of their memory to the outputs: then
// the inputs run empty first, and their staircase stays exact.
//
// Groups that do not divide: outputs are written in groups whose sizes alternate so that m / G are
// written in the mean; the largest outputs are always chosen. If the lengths of the inputs are
// known, the last step writes only as much as the remaining input needs, and a step becomes the
// last one if up to another group's worth of writes makes it so.
//
// It never deadlocks: when the computation waits for the outputs, some bucket holds bytes and
// writing it makes room; when it waits for input i, the reader can always load at least a block of
// i (the invariant of input_stairs.h). So between two calls either bytes move or the computation
// advances, until all of them have passed.
//
// Streams that end, or were empty from the start, drop out of the staircase and the others share
// its memory. n = 0 or m = 0 need no special case; a single stream makes one run.
class StairScheduler final : public Scheduler {
 public:
  struct Options {
    // The least bytes of a read, and the memory that every input keeps reserved.
    uint64_t block_bytes = 64 * 1024;
  };

  // Fails if the memory does not hold a block for each input and two for the outputs.
  static Result<std::unique_ptr<StairScheduler>> open(const Schedule& schedule,
                                                      const Options& options);
  static Result<std::unique_ptr<StairScheduler>> open(const Schedule& schedule) {
    return open(schedule, Options{});
  }

  Action next(const View& view) override;

 private:
  static constexpr uint32_t none = ~uint32_t{0};

  StairScheduler(const Schedule& schedule, Layout layout);

  void plan(const View& view);
  void start(const View& view);
  void input_ran_empty(const View& view, uint32_t input);
  void outputs_are_full(const View& view);
  void flush(const View& view);

  void fill_streamed(const View& view);
  void stream(uint32_t input);
  void load_group(const View& view, uint32_t input);
  void write_group(const View& view);
  double room_missing(const View& view) const;
  void write_all_of(uint32_t output);

  bool reads_overlapped() const;
  bool writes_overlapped() const;
  bool group_write_due(const View& view) const;
  uint32_t largest_output(const View& view) const;

  Schedule schedule_;
  InputStairs stairs_;
  std::deque<Action> queue_;
  bool started_ = false;
  uint32_t streamed_ = none;  // the input that an overlapped reader is at
  uint32_t written_ = none;   // the output that an overlapped writer is at
  uint32_t written_groups_ = 0;
  bool wrote_in_step_ = false;  // a group was written since an input ran empty
};

}  // namespace penstock::bowtie
