#pragma once

// Runs a user's computation between n inputs and m outputs, on real files: the executor.
//
//   auto result = bowtie::run(std::move(inputs), std::move(outputs),
//                             [&](bowtie::Streams& streams) -> Status {
//                               bowtie::InputStream& in = streams.input(0);
//                               for (;;) {
//                                 auto items = in.window(sizeof(Item));
//                                 if (items.size() < sizeof(Item)) break;
//                                 ... read items.data(), write to streams.output(j) ...
//                                 in.advance(used_bytes);
//                               }
//                               return {};
//                             },
//                             {.memory_bytes = 256 * MiB});
//
// The computation knows nothing of devices, blocks or seeks: each stream is bytes in a row at
// contiguous addresses. When it asks for bytes that are not there, or for room that is not there,
// it waits; that is the event upon which the Scheduler (scheduler.h) says what the device does
// next. Memory is one pool of blocks, which all streams share: a stream that is waited for often
// has few of them, one that was just read has many.
//
// Two ways to use a stream; each stream is used in one of them:
//
//   *Windows* (window / room, and advance). The fast way, and the careful one: no faults, memory is
//   given back to the byte, and after an error a window is empty, so that a loop ends by itself.
//
//   *The plain pointer* (begin), for code that knows nothing else. A touch of a block that is not
//   there faults, and the fault waits. A block counts as done when the pointer is `comeback_blocks`
//   blocks further, or when advance_to() says so. What becomes of a touch after an error is said by
//   RunOptions::on_error.
//
// The computation and all its streams belong to one thread: the one that called run(). It may use
// other threads for work on bytes that a window has shown. It never sees bytes of a block that it
// did not wait for, and must not keep pointers behind what it has advanced over.
//
// What it costs, how the threads talk to each other and why nobody waits for ever: run.cc.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bowtie/model.h"
#include "bowtie/planner.h"
#include "bowtie/scheduler.h"
#include "bowtie/staircase_record.h"
#include "file/file.h"
#include "penstock/base.h"
#include "penstock/source.h"

namespace penstock::bowtie {

// A file, or a stretch of one. Exactly one of `file` and `path` is given.
//
// What comes in order alone, a pipe or compressed data (source/in_order.h), is not the device's: a
// thread of its own reads it (SourceStream), from when the computation first asks for it until it
// has ended. To the scheduler it is an input that has ended. It can be used in windows alone.
struct Input {
  const file::File* file = nullptr;  // open for reading; may be a pipe (then from where it stands)
  // Opened when the device first comes to it. The executor closes it in between where descriptors
  // are short, so that there may be more inputs than descriptors.
  std::string path;
  uint64_t offset = 0;
  uint64_t bytes = unknown_bytes;  // unknown: to the end of the file
  SourceOptions source = {.decompress = false};
  uint64_t decoding_bytes = 0;  // of memory, as far as is known (source/in_order.h)
  // Of what comes in order: what is read, where that is not all of the file.
  std::function<Result<std::unique_ptr<Source>>(const file::File& file)> source_of = {};
};

// Exactly one of `file`, `path` and `sink` is given.
struct Output {
  const file::File* file = nullptr;  // open for writing, or a pipe; written from `offset` on
  std::string path;                  // has its name only after the run has succeeded
  // Gets the bytes in order, in pieces of at most a block, from the device's thread. For what is no
  // file on the device: the scheduler treats it as any other output.
  std::function<Status(std::span<const std::byte>)> sink;
  uint64_t offset = 0;
  // The most that may come: address space. 0: the bytes of all inputs (a TiB where they do not say
  // how many), as far as addresses go round.
  uint64_t bytes_max = 0;
};

namespace internal {
class Execution;
}

// What the computation reads.
//
// Thread safety: the computation's thread alone.
class InputStream {
 public:
  // At least `bytes_min` bytes from the present position on; fewer (perhaps none) only where the
  // input ends before, or after an error or a cancel, which status() tells. There are more at hand
  // than asked for, mostly the rest of a block; nothing moves until advance() passes it. Waits.
  // REQUIRES: bytes_min <= streams().window_bytes_max().
  std::span<const std::byte> window(size_t bytes_min = 1) {
    const std::byte* at = position_.load(std::memory_order_relaxed);
    if (static_cast<size_t>(visible_end_ - at) < bytes_min) [[unlikely]] {
      fetch(bytes_min);
      at = position_.load(std::memory_order_relaxed);  // what comes in order is opened by now
    }
    return {at, visible_end_};
  }
  // The next `bytes` of the window are consumed: their memory is free, their addresses must not be
  // touched again. REQUIRES: no more than window() has shown.
  void advance(size_t bytes) { advance_to(position_.load(std::memory_order_relaxed) + bytes); }
  // The same with an address; on a plain pointer, what lies before it is done with.
  void advance_to(const std::byte* position) {
    // Relaxed: the device's thread looks at it for its picture of the levels, and at nothing
    // behind it. Blocks change hands in release().
    position_.store(position, std::memory_order_relaxed);
    if (position >= release_at_) [[unlikely]]
      release();
  }
  const std::byte* position() const { return position_.load(std::memory_order_relaxed); }

  // The plain pointer. Past the end the rest of the last block reads as zeros.
  const std::byte* begin() const { return begin_; }
  // unknown_bytes for what comes in order and was not read to its end.
  uint64_t bytes() const;
  // REQUIRES: bytes() is known.
  const std::byte* end() const { return begin_ + bytes(); }

  // The run's first error so far: why a window was short.
  Status status() const;
  uint32_t index() const { return index_; }

 private:
  friend class internal::Execution;
  void fetch(size_t bytes_min);
  void release();

  internal::Execution* execution_ = nullptr;
  uint32_t index_ = 0;
  const std::byte* begin_ = nullptr;
  std::atomic<const std::byte*> position_{nullptr};
  const std::byte* visible_end_ = nullptr;  // of what is mapped, and belongs to the input
  const std::byte* release_at_ = nullptr;   // the end of the first block that is held
};

// What the computation writes.
//
// Thread safety: the computation's thread alone.
class OutputStream {
 public:
  // Room for at least `bytes_min` bytes; empty after an error or a cancel, which status() tells.
  // Waits. What is in it is undefined. REQUIRES: bytes_min <= streams().window_bytes_max().
  std::span<std::byte> room(size_t bytes_min = 1) {
    std::byte* at = position_.load(std::memory_order_relaxed);
    if (static_cast<size_t>(visible_end_ - at) < bytes_min) [[unlikely]] {
      if (!make_room(bytes_min)) return {};
    }
    return {at, visible_end_};
  }
  // The next `bytes` of the room are written.
  void advance(size_t bytes) { advance_to(position_.load(std::memory_order_relaxed) + bytes); }
  // The same with an address; on a plain pointer, how far it has come: to be called at least once,
  // with the output's end, before the computation returns.
  void advance_to(std::byte* position) {
    position_.store(position, std::memory_order_relaxed);  // as in InputStream
    if (position >= release_at_) [[unlikely]]
      release();
  }
  std::byte* position() const { return position_.load(std::memory_order_relaxed); }

  // The plain pointer.
  std::byte* begin() const { return begin_; }
  // Copies through room(), piece by piece. False after an error.
  bool append(const void* data, size_t bytes);

  uint64_t bytes() const { return static_cast<uint64_t>(position() - begin_); }
  Status status() const;
  uint32_t index() const { return index_; }

 private:
  friend class internal::Execution;
  bool make_room(size_t bytes_min);
  void release();

  internal::Execution* execution_ = nullptr;
  uint32_t index_ = 0;
  std::byte* begin_ = nullptr;
  std::atomic<std::byte*> position_{nullptr};
  std::byte* visible_end_ = nullptr;
  std::byte* release_at_ = nullptr;
};

// All streams of a run.
class Streams {
 public:
  uint32_t inputs() const { return static_cast<uint32_t>(inputs_.size()); }
  uint32_t outputs() const { return static_cast<uint32_t>(outputs_.size()); }
  InputStream& input(uint32_t i) { return inputs_[i]; }
  OutputStream& output(uint32_t j) { return outputs_[j]; }
  size_t block_bytes() const { return block_bytes_; }
  // The largest window or room that can be asked for: comeback_blocks whole blocks, or where that
  // is 0, one item of a size that divides the block.
  size_t window_bytes_max() const { return window_bytes_max_; }
  // ok, or the first error of any stream, or `cancelled`: for computations that go on for long
  // without asking for anything.
  Status status() const;

 private:
  friend class internal::Execution;
  internal::Execution* execution_ = nullptr;
  std::vector<InputStream> inputs_;
  std::vector<OutputStream> outputs_;
  size_t block_bytes_ = 0;
  size_t window_bytes_max_ = 0;
};

// Called once. What it returns ends the run: an error is the run's error (unless a stream had one
// before), and nothing gets a name. It need not read its inputs to their ends.
using Computation = std::function<Status(Streams&)>;

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
  // A policy of one's own instead, such as BlockScheduler. It divides memory_bytes as its layout
  // says. REQUIRES: outlives the run, and is fresh.
  Scheduler* scheduler = nullptr;
  // For the prediction in the result; where there is none, the emulated device if one is on.
  const DeviceProfile* device = nullptr;
  // Bytes that will be written in all, where that is known, for the prediction. 0: by input_share.
  uint64_t written_bytes = 0;
  // Of an input that comes in order: a multiple of block_bytes, or 0 for that.
  size_t in_order_block_bytes = 0;
  // The computation reads its inputs one after the other.
  bool inputs_in_turn = false;
  unsigned depth = 0;  // requests in flight within a run at most; 0: as large blocks need
  // After an error, of a touch through a plain pointer (windows are empty instead).
  ErrorPolicy on_error = ErrorPolicy::zeros;
  // Looked at whenever something happens; true ends the run with ErrorCode::cancelled.
  const std::atomic<bool>* cancel = nullptr;
  file::Caching caching = file::Caching::direct;  // of what the run opens itself
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

// What a run did. Of a plan: the sums over its passes.
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
  // Of `seconds`: the device worked on reads or writes, and the computation waited for it; both
  // worked; the computation worked alone.
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
  // With RunOptions::record_staircases. Of a plan one for each shape of its bowties, as far as
  // staircases_max.
  std::vector<Staircases> staircases;

  uint64_t switches() const { return read_switches + write_switches; }
  double bytes_per_s() const {
    return seconds > 0 ? static_cast<double>(bytes_read + bytes_written) / seconds : 0;
  }
};

inline constexpr size_t staircases_max = 8;

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

// The final outputs [first, last) for which one output of a bowtie within a plan stands.
struct OutputRange {
  uint32_t first = 0;
  uint32_t last = 0;
};

// A computation that may be carried out in steps. Merging: several inputs to one output, and the
// merge of merges is the merge of all. Distributing: an item goes to the output whose range holds
// the final output that it belongs to. `ranges` has one element for each output.
using SteppedComputation =
    std::function<Status(Streams&, std::span<const OutputRange> ranges, Pass::Kind kind)>;

struct PlanRunOptions {
  RunOptions run;  // schedule and scheduler are not used: the plan has its own
  // Where the files between the passes go, in turns. They have no names where the file system
  // allows that, and their space is free as soon as the bowtie that reads them has ended.
  std::vector<std::string> temporary_directories;
};

// What a plan for these many inputs and outputs (planner.h) says, pass by pass, bowtie by bowtie.
// Outputs get their names bowtie by bowtie of the last pass. Fails where the plan has no passes or
// is for other numbers of files.
Result<RunResult> run_plan(const Plan& plan, std::vector<Input> inputs, std::vector<Output> outputs,
                           const SteppedComputation& computation, const PlanRunOptions& options);

}  // namespace penstock::bowtie
