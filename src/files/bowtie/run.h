#pragma once

// Runs a user's computation between n inputs and m outputs on real files: the executor behind
// penstock/bowtie.h, which defines computations. In addition to that header's paths, inputs and
// outputs may be open files, ranges of files and sources; schedules can be chosen, and a merge can
// take several passes.
//
// Costs, threads, and why there is no deadlock: execution.cc.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "files/bowtie/model.h"
#include "files/bowtie/planner.h"
#include "files/bowtie/scheduler.h"
#include "files/bowtie/staircase_record.h"
#include "io/file.h"
#include "penstock/base.h"
#include "penstock/bowtie.h"
#include "penstock/source.h"

namespace penstock::bowtie {

// A file or a range of one. Exactly one of `file` and `path` is set.
//
// An input without offsets (`in_order`), a pipe or compressed data (files/source/in_order.h), is
// not read by the device but by a thread of its own (SourceStream), from the computation's first
// request until it has ended. To the scheduler it has ended already. It can only be used in
// windows.
struct Input {
  const io::File* file = nullptr;  // open for reading; a pipe is read from its position
  // Opened when the device first needs it. The executor closes it in between if descriptors are
  // scarce, so that there may be more inputs than descriptors.
  std::string path;
  uint64_t offset = 0;
  uint64_t bytes = unknown_bytes;  // default: to the end of the file
  SourceOptions source = {.decompress = false};
  // Estimated memory of the decoder (files/source/in_order.h); 0 for an input with offsets.
  uint64_t decoding_bytes = 0;
  // For an input without offsets: makes the source, if it is not the whole file.
  std::function<Result<std::unique_ptr<Source>>(const io::File& file)> source_of = {};
  std::string name = {};  // for messages of the caller; the executor's have the input's number
};

// Exactly one of `file` and `path` is set.
struct Output {
  const io::File* file = nullptr;  // open for writing, or a pipe; written from `offset` on
  std::string path;                // the file gets its name only after the run has succeeded
  uint64_t offset = 0;
  // The most bytes that may be written: address space. 0: the bytes of all inputs (a TiB for an
  // input of unknown length), or fewer if addresses are short.
  uint64_t bytes_max = 0;
  // For a temporary whose reader knows its end: the last request is rounded up to whole sectors,
  // and the padding is arbitrary. Otherwise a part of a sector is written buffered.
  bool whole_sectors = false;
};

struct RunOptions {
  // Memory of all blocks of all streams, except inputs without offsets (beside_in_order()). Apart
  // from it a run needs some MiB for itself, and 16 bytes per block.
  uint64_t memory_bytes = 256 << 20;
  // A power of two from 4 KiB to 4 MiB. 0: as large as possible with many blocks per stream.
  size_t block_bytes = 0;
  // How far a plain pointer may go back, and how long an item may be that lies across the border of
  // two blocks. Each stream can hold this many blocks and one more, at any time. 0 suits windows
  // over items whose size divides the block, at offsets that are multiples of it.
  uint32_t comeback_blocks = 1;
  // Inputs show windows of more than comeback_blocks, in memory that they borrow (Loan). REQUIRES:
  // then no room of an output is wider than a block.
  bool wide_windows = false;
  // alpha, if it is known better than by default: bytes read over bytes read and written.
  double input_share = 0.5;
  // The schedule. Default: best_schedule() of the streams, the share and the memory. A given one
  // may be for another memory size; it is recomputed for this run's.
  std::optional<Schedule> schedule;
  // A custom policy instead of a schedule. It divides memory_bytes as its layout says. REQUIRES:
  // outlives the run, and is unused so far.
  Scheduler* scheduler = nullptr;
  // For the prediction in the result. Default: the emulated device, if one is on.
  const DeviceProfile* device = nullptr;
  // The computation also runs while the device reads or writes a group. For devices that switch
  // streams at no cost: on others, exact staircases are worth the rest.
  bool never_rests = false;
  // Block size of inputs without offsets: a multiple of block_bytes; 0: block_bytes.
  size_t in_order_block_bytes = 0;
  // The computation reads its inputs one after the other.
  bool inputs_in_turn = false;
  unsigned depth = 0;  // most requests in flight within a run; 0: enough for large blocks
  // The result of touching a plain pointer after an error (windows are empty instead).
  ErrorPolicy on_error = ErrorPolicy::zeros;
  // Polled at every event; true ends the run with ErrorCode::cancelled.
  const std::atomic<bool>* cancel = nullptr;
  io::Caching caching = io::Caching::direct;  // caching of the files that the run opens itself
  // Called from the device's thread with each action before it is carried out.
  std::function<void(const View&, const Action&)> observe;
  // Fill RunResult::staircases, if the inputs' lengths are known.
  bool record_staircases = false;
};

// The buckets of runs of one shape in their steady state, mean over its steps.
struct Staircases {
  Schedule schedule;  // schedule of the last run, for input_staircase() and output_staircase()
  uint32_t inputs = 0;
  uint32_t outputs = 0;
  MeasuredStairs input, output;
};

// The statistics of a run.
struct RunResult {
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  // Attempted seeks: the number of times the device went on to another stream.
  uint64_t read_switches = 0;
  uint64_t write_switches = 0;
  uint64_t actions = 0;
  double run_bytes = 0;  // L: bytes between two switches, mean
  uint64_t run_bytes_min = 0;
  uint64_t run_bytes_max = 0;
  double seconds = 0;
  // Parts of `seconds`: the device read or wrote while the computation waited for it (or, with
  // RunOptions::never_rests, may have worked too); both worked; the computation worked alone.
  double seconds_reading = 0;
  double seconds_writing = 0;
  double seconds_overlapped = 0;
  double seconds_computing_alone = 0;
  uint64_t blocks_peak = 0;  // most blocks of memory in use at once
  size_t block_bytes = 0;
  std::vector<uint64_t> output_bytes;
  Schedule schedule;                     // schedule as carried out (empty for a custom policy)
  std::optional<Prediction> prediction;  // by equation 2, if the device is known
  std::string emulated;                  // the emulated device, if one was on
  std::vector<Staircases> staircases;    // if RunOptions::record_staircases is set

  uint64_t switches() const { return read_switches + write_switches; }
  double bytes_per_s() const {
    return seconds > 0 ? static_cast<double>(bytes_read + bytes_written) / seconds : 0;
  }
};

// The estimated memory of the decoders of inputs without offsets, of which so many are read at once.
uint64_t decoding_bytes(std::span<const Input> inputs, size_t at_once);

// Returns the options for the memory that inputs without offsets leave, and with blocks for these:
// large ones if there is room, because their threads change at each block. REQUIRES: block_bytes is
// set; all other inputs have their `bytes` set.
RunOptions beside_in_order(std::span<const Input> inputs, RunOptions options);

// Memory of a run's blocks that its computation uses for something else for a while, such as an item
// of many blocks. It comes from free blocks, from bytes that were read ahead and are dropped, and
// from full blocks of outputs, which are written. Without RunOptions::wide_windows a loan is not
// counted.
//
// Thread safety: the computation's thread. Invariant: the blocks in use and the loans together never
// exceed memory_bytes.
class Loan {
 public:
  explicit Loan(Streams& streams) : execution_(streams.execution_) {}
  explicit Loan(OutputStream& output) : execution_(output.execution_) {}
  explicit Loan(internal::Execution& execution) : execution_(&execution) {}
  Loan(Loan&& other) noexcept
      : execution_(other.execution_), blocks_(std::exchange(other.blocks_, 0)) {}
  Loan& operator=(Loan&& other) noexcept {
    std::swap(execution_, other.execution_);
    std::swap(blocks_, other.blocks_);
    return *this;
  }
  ~Loan() {
    if (borrows()) (void)set(0);
  }

  // Borrows so many bytes in all, rounded up to blocks, or gives back the rest. Returns false, and
  // changes nothing, if that many cannot be had, or after an error of the run.
  bool set(uint64_t bytes);
  uint64_t bytes() const;
  bool borrows() const { return blocks_ != 0; }

 private:
  internal::Execution* execution_;
  uint64_t blocks_ = 0;
};

// Runs one pass. Outputs given by path appear together at the end (each by itself is atomic); after
// an error none does, and the first error is returned.
//
// Errors: out_of_memory if the memory has no room for this many streams (the hint says what to
// try); errors of opening, reading and writing; corrupt if a file is shorter than it was; the
// computation's error; cancelled.
Result<RunResult> run(std::vector<Input> inputs, std::vector<Output> outputs,
                      const Computation& computation, const RunOptions& options);

// ---- Several passes.

struct PlanRunOptions {
  RunOptions run;  // schedule and scheduler are not used: the plan has its own
  // Makes a file for the data between two passes. It is deleted when it is closed, as soon as the
  // merge that reads it has ended.
  std::function<Result<std::unique_ptr<io::File>>()> temporary;
  // Called before each merge with the number of its first input among those of the plan; nullopt if
  // its inputs are temporaries.
  std::function<void(std::optional<uint64_t> first)> begins = {};
};

struct PlanRunResult {
  uint64_t temporary_bytes = 0;  // written between the passes
  uint64_t output_bytes = 0;
  std::vector<Staircases> staircases;  // one for each shape of its merges, up to staircases_max
};
inline constexpr size_t staircases_max = 8;

// Merges pass by pass, by a plan for the number of inputs and one output (planner.h). `computation`
// merges some of the inputs, or of the passes' files, into one. Fails if the plan is for another
// number of files.
Result<PlanRunResult> run_plan(const Plan& plan, std::vector<Input> inputs, Output output,
                               const Computation& computation, const PlanRunOptions& options);

}  // namespace penstock::bowtie
