#pragma once

// Runs a user's computation between n inputs and m outputs, on real files: the executor behind
// penstock/bowtie.h, which tells what a computation is and does. Beside the paths of that header,
// inputs and outputs may be open files, stretches of files and sources; schedules can be chosen, and
// a merge carried out in several passes.
//
// What it costs, how the threads talk to each other and why nobody waits for ever: execution.cc.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
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

// A file, or a stretch of one. Exactly one of `file` and `path` is given.
//
// What comes in order alone, a pipe or compressed data (files/source/in_order.h), is not the device's: a
// thread of its own reads it (SourceStream), from when the computation first asks for it until it
// has ended. To the scheduler it is an input that has ended. It can be used in windows alone.
struct Input {
  const io::File* file = nullptr;  // open for reading; may be a pipe (then from where it stands)
  // Opened when the device first comes to it. The executor closes it in between where descriptors
  // are short, so that there may be more inputs than descriptors.
  std::string path;
  uint64_t offset = 0;
  uint64_t bytes = unknown_bytes;  // unknown: to the end of the file
  SourceOptions source = {.decompress = false};
  uint64_t decoding_bytes = 0;  // of memory, as far as is known (files/source/in_order.h)
  // Of what comes in order: what is read, where that is not all of the file.
  std::function<Result<std::unique_ptr<Source>>(const io::File& file)> source_of = {};
  std::string name = {};  // for messages of those that make runs; the executor's have its number
};

// Exactly one of `file` and `path` is given.
struct Output {
  const io::File* file = nullptr;  // open for writing, or a pipe; written from `offset` on
  std::string path;                // has its name only after the run has succeeded
  uint64_t offset = 0;
  // The most that may come: address space. 0: the bytes of all inputs (a TiB where they do not say
  // how many), as far as addresses go round.
  uint64_t bytes_max = 0;
  // For a temporary whose reader knows its end: the last request is rounded up to whole sectors, with
  // whatever stands there. Otherwise what does not fill a sector goes behind other requests.
  bool whole_sectors = false;
};

struct RunOptions {
  // All blocks of all streams, but of those that come in order (beside_in_order()). Beside it a run
  // needs some MiB for itself, and 16 bytes per block.
  uint64_t memory_bytes = 256 << 20;
  // A power of two from 4 KiB to 4 MiB. 0: as large as leaves each stream many of them.
  size_t block_bytes = 0;
  // How far behind a plain pointer may come back, and how long an item may be that lies across the
  // border of two blocks. Each stream can have so many blocks and one more, at any time. 0 suits
  // windows over items whose size divides the block, at offsets that are multiples of it.
  uint32_t comeback_blocks = 1;
  // alpha, if it is known better than by default: bytes read over bytes read and written.
  double input_share = 0.5;
  // How to go about it. Nothing: best_schedule() of the streams, the share and the memory. What is
  // given may have another memory than ours, and is made for ours.
  std::optional<Schedule> schedule;
  // A policy of one's own instead. It divides memory_bytes as its layout says. REQUIRES: outlives
  // the run, and is fresh.
  Scheduler* scheduler = nullptr;
  // For the prediction in the result; where there is none, the emulated device if one is on.
  const DeviceProfile* device = nullptr;
  // The computation goes on while the device reads or writes a group, too. For devices that go to another
  // stream for nothing: elsewhere exact staircases are worth the rest.
  bool never_rests = false;
  // Of an input that comes in order: a multiple of block_bytes, or 0 for that.
  size_t in_order_block_bytes = 0;
  // The computation reads its inputs one after the other.
  bool inputs_in_turn = false;
  unsigned depth = 0;  // requests in flight within a run at most; 0: as large blocks need
  // After an error, of a touch through a plain pointer (windows are empty instead).
  ErrorPolicy on_error = ErrorPolicy::zeros;
  // Looked at whenever something happens; true ends the run with ErrorCode::cancelled.
  const std::atomic<bool>* cancel = nullptr;
  io::Caching caching = io::Caching::direct;  // of what the run opens itself
  // Called from the device's thread with each action before it is carried out.
  std::function<void(const View&, const Action&)> observe;
  // RunResult::staircases has what the buckets looked like, where the inputs say how long they are.
  bool record_staircases = false;
};

// The buckets of runs of one shape in their steady state, mean over its steps.
struct Staircases {
  Schedule schedule;  // of the last one: what input_staircase() and output_staircase() are for
  uint32_t inputs = 0;
  uint32_t outputs = 0;
  MeasuredStairs input, output;
};

// What a run did.
struct RunResult {
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  // Attempted seeks: how often the device went on to another stream.
  uint64_t read_switches = 0;
  uint64_t write_switches = 0;
  uint64_t actions = 0;
  double run_bytes = 0;  // L: bytes between two switches, mean
  uint64_t run_bytes_min = 0;
  uint64_t run_bytes_max = 0;
  double seconds = 0;
  // Of `seconds`: the device worked on reads or writes, and the computation waited for it (or, with
  // RunOptions::never_rests, may have worked beside); both worked; the computation worked alone.
  double seconds_reading = 0;
  double seconds_writing = 0;
  double seconds_overlapped = 0;
  double seconds_computing_alone = 0;
  uint64_t blocks_peak = 0;  // of memory, at once
  size_t block_bytes = 0;
  std::vector<uint64_t> output_bytes;
  Schedule schedule;                     // as it was carried out (of a policy of one's own: empty)
  std::optional<Prediction> prediction;  // equation 2 with it, where the device is known
  std::string emulated;  // the emulated device on which all this happened; empty: none
  std::vector<Staircases> staircases;  // with RunOptions::record_staircases

  uint64_t switches() const { return read_switches + write_switches; }
  double bytes_per_s() const {
    return seconds > 0 ? static_cast<double>(bytes_read + bytes_written) / seconds : 0;
  }
};

// The same options, for what inputs that come in order leave of the memory, and with blocks for
// these: large ones where there is room, as their threads change at each. REQUIRES: block_bytes is
// given; those that do not come in order say how many bytes they have.
RunOptions beside_in_order(std::span<const Input> inputs, RunOptions options);

// One pass. Outputs that are given by path appear together at the end (each by itself is atomic);
// after an error none does, and the first error is returned.
//
// Errors: out_of_memory where the memory has no room for so many streams (what to try is in the
// hint); what opening, reading and writing say; corrupt where a file is shorter than it was; what
// the computation returned; cancelled.
Result<RunResult> run(std::vector<Input> inputs, std::vector<Output> outputs,
                      const Computation& computation, const RunOptions& options);

// ---- Several passes.

struct PlanRunOptions {
  RunOptions run;  // schedule and scheduler are not used: the plan has its own
  // Makes a file for the data between two passes, which is gone when it is closed: as soon as the merge that reads it
  // has ended.
  std::function<Result<std::unique_ptr<io::File>>()> temporary;
};

struct PlanRunResult {
  uint64_t temporary_bytes = 0;  // written between the passes
  uint64_t output_bytes = 0;
  std::vector<Staircases> staircases;  // one for each shape of its merges, as far as staircases_max
};
inline constexpr size_t staircases_max = 8;

// Merges by a plan for so many inputs and one output (planner.h), pass by pass. `computation` merges some of the inputs,
// or what was merged of them, into one. Fails where the plan is for other numbers of files.
Result<PlanRunResult> run_plan(const Plan& plan, std::vector<Input> inputs, Output output,
                               const Computation& computation, const PlanRunOptions& options);

}  // namespace penstock::bowtie
