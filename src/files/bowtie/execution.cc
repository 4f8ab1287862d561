// How a run works: the two threads, who waits for whom, and why there is no deadlock.
//
// Streaming between many files with one buffer per file gives each buffer M / (n + m) bytes, and
// the device goes from file to file as the computation does: with hundreds of files it mostly
// seeks. The policies of scheduler.h choose better, but they have to be asked before anything
// moves, with all levels in view; and the computation should know nothing of all that.
//
// So there are two threads. The *computation's* (the caller's) runs the user's function. The
// *device's* asks the scheduler, carries out the action, and asks again. They meet at blocks of one
// pool:
//
//                       device's thread                     computation's thread
//     an input's block  take, read at home, "arrived"   ->  map at its address .. unmap, give
//     an output's block write at home, give             <-  take, map .. unmap, "handed"
//
// A block is moved by page tables, never copied, and each stream's blocks appear at contiguous
// addresses of one large reservation. Four counters per input and three per output say which of a
// stream's blocks is where (execution.h). All shared state is under one mutex, held for a few
// instructions per block.
//
// *The stall event.* The computation waits in one place, wait_for_device(): for a block of an input
// that has not arrived, or for a free block for an output. It gets there from window() or room(),
// or from a fault at a plain pointer; the effect is the same. The device's thread reports it to the
// scheduler as a Stall, unless a request in flight will end the wait anyway.
//
// *The gate.* Where the paper's algorithms do not overlap, the computation rests while the device
// works (a group is written, or loaded). A computation that waits goes on only when its block is
// there *and* the gate is open; overlapped actions and `compute` open it, the others close it.
// Nothing stops a computation that does not wait: none of those actions begin while it runs. If a
// switch costs nothing, the rest would only lose time, so the gate stays open (never_rests): the
// rest of a group is then read while the computation runs, which only lowers the levels.
//
// *Loans.* An item of more blocks than the comeback is shown as a copy, in memory that the run's
// blocks give up for as long (Loan). The device's thread finds it: it writes the full blocks of
// outputs, and then drops blocks that were read ahead, the last ones of the input that has most, to
// read them again later. Each side keeps what it needs at least, so the argument below holds for
// the blocks that are left.
//
// *In flight.* Several requests of a run are in flight, and a run does not wait for those of the
// run before it: the device always has its next request. Levels count what is submitted, so the
// scheduler's picture is ahead of the device by at most `depth` blocks.
//
// *Blocks, where the paper has bytes.* The policy plans in bytes. The partly used block of a stream
// is lost to the others, half a block in the mean, so the policy gets a memory that is smaller by
// this much, and a prediction for that memory holds. An overlapped stream gets a few MiB more than
// the policy knows of: the theory lets its bytes pass through no memory, but with two blocks the
// two threads would wait for each other at each block. Writes are whole blocks, up to the end of a
// stream, and an output's level is the bytes that could be written now.
//
// *Why there is no deadlock.* A stalled computation waits either
// - for input i. It holds at most `comeback_blocks` blocks of i at that moment (those behind were
//   released before it waited), and reserve(i) is one more. The sum of the reserves never exceeds
//   the inputs' blocks (room_blocks() enforces it for any policy), so there is a block for i, and
//   the policy's invariant (input_stairs.h) is that it always reads a stalled input. Or
// - for room in an output. Then all the outputs' blocks are held, and each output keeps at most
//   comeback_blocks + 1 of them back (the waiting one comeback_blocks); there are (comeback_blocks
//   + 1) m in all, so at least one is full, and writable bytes are the only ones that any policy
//   sees.
// A computation that does not wait ends, or waits eventually. The device's thread waits for a
// request in flight, which ends by itself, or, when there is none, for the computation that runs. A
// policy that moves nothing (a user's own policy could) is noticed, and ends the run with an error.
//
// *Errors.* The first one counts. The thread that finds it stores it and wakes the other: windows
// are empty from then on, faults are served as RunOptions::on_error says; the device's thread waits
// for the requests in flight and ends. No output gets its name.
//
// Costs: for each block a map and an unmap (a few us; see pool.cc), one mutex three times, one
// request. The device's thread is asleep nearly all the time.

#include "files/bowtie/execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "base/bits.h"
#include "base/check.h"
#include "base/thread.h"
#include "files/bowtie/addresses.h"
#include "files/source/in_order.h"
#include "io/emulation.h"
#include "os/limits.h"
#include "penstock/base.h"

namespace penstock::bowtie::internal {
namespace {

// Memory of the bookkeeping of a block, and of a stream.
constexpr uint64_t table_bytes_per_block = 16;
constexpr uint64_t table_bytes_per_stream = 2 * KiB;

constexpr size_t block_bytes_min = 4 * KiB;
constexpr size_t block_bytes_most = 4 * MiB;
constexpr size_t block_bytes_usual_max = 2 * MiB;
// The usual number of blocks for each stream: half a block is lost in each.
constexpr uint64_t blocks_per_stream = 32;
// Memory that an overlapped stream gets beyond the policy's, so that device and computation need
// not wait for each other block by block: a 64th of all blocks, within bounds.
constexpr uint64_t ahead_part = 64;
constexpr uint64_t ahead_blocks_min = 4;
// Part of all blocks for a merge's only output if the computation never rests: it buffers the
// output while a group of inputs is read.
constexpr uint64_t busy_ahead_part = 4;
// Bytes in flight that keep a device busy.
constexpr size_t in_flight_bytes = 16 * MiB;
constexpr unsigned depth_min = 4;
constexpr unsigned depth_max = 64;
constexpr uint64_t unknown_input_bytes = 1 * TiB;
// The range of a page of page tables: streams that do not share one can free it.
constexpr uint64_t address_step = 2 * MiB;

size_t usual_block_bytes(uint32_t streams, uint64_t memory_bytes) {
  const uint64_t bytes = memory_bytes / (streams * blocks_per_stream);
  return std::clamp<size_t>(std::bit_floor(std::max<uint64_t>(1, bytes)), block_bytes_min,
                            block_bytes_usual_max);
}

Error no_room(uint32_t inputs, uint32_t outputs, const RunOptions& options, size_t block_bytes) {
  return Error{ErrorCode::out_of_memory,
               fmt::format("run with {} inputs and {} outputs", inputs, outputs),
               fmt::format("{} bytes in blocks of {}", options.memory_bytes, block_bytes), 0,
               "fewer streams in several passes, more memory, or smaller blocks"};
}

}  // namespace

// Divides the memory by the scheduler's layout: bytes become blocks, plus half a block per stream.
Result<Division> divide(uint32_t inputs, uint32_t outputs, const RunOptions& options) {
  Division division;
  const size_t block_bytes = options.block_bytes != 0
                                 ? options.block_bytes
                                 : usual_block_bytes(inputs + outputs, options.memory_bytes);
  if (!std::has_single_bit(block_bytes) || block_bytes < block_bytes_min ||
      block_bytes > block_bytes_most) {
    return failure(ErrorCode::invalid_argument, fmt::format("use blocks of {} bytes", block_bytes),
                   "run", "a power of two from 4 KiB to 4 MiB");
  }
  division.block_bytes = block_bytes;
  const uint64_t each = uint64_t{options.comeback_blocks} + 1;
  const uint64_t inputs_min = inputs == 0 ? 0 : inputs * each + 1;
  const uint64_t outputs_min = outputs == 0 ? 0 : outputs * each + 1;
  const uint64_t blocks = options.memory_bytes / block_bytes;
  if (blocks < inputs_min + outputs_min || blocks >= pool::no_block)
    return std::unexpected(no_room(inputs, outputs, options, block_bytes));

  // Blocks of an overlapped stream beyond its policy's memory; 0 unless there is plenty.
  uint64_t ahead = std::clamp<uint64_t>(blocks / ahead_part, ahead_blocks_min,
                                        std::max(ahead_blocks_min, in_flight_bytes / block_bytes));
  if (options.never_rests && inputs > 1 && outputs == 1) {
    const uint64_t half = blocks / 2 - std::min(blocks / 2, inputs_min + outputs_min);
    ahead = std::max(ahead, std::min(blocks / busy_ahead_part, half));
  }
  if (blocks < 2 * (inputs_min + outputs_min + ahead)) ahead = 0;
  uint64_t ahead_outputs = 0;
  const uint64_t lost_inputs = ceil_div(inputs, 2);
  const uint64_t lost_outputs = ceil_div(outputs, 2);
  const Scheduler* scheduler = options.scheduler;
  if (scheduler == nullptr) {
    Bowtie bowtie{
        .inputs = inputs,
        .outputs = outputs,
        .input_share = inputs == 0    ? 0
                       : outputs == 0 ? 1
                                      : options.input_share,
        .memory_bytes = (blocks - lost_inputs - lost_outputs - ahead) * block_bytes,
    };
    if (options.schedule) {
      const Bowtie& wanted = options.schedule->bowtie;
      if (wanted.inputs != inputs || wanted.outputs != outputs) {
        return failure(ErrorCode::invalid_argument,
                       fmt::format("use a schedule for {} inputs and {} outputs", wanted.inputs,
                                   wanted.outputs),
                       fmt::format("a run of {} and {}", inputs, outputs));
      }
      division.schedule =
          schedule_with(bowtie, options.schedule->algorithm, options.schedule->groups);
    } else {
      division.schedule = best_schedule(bowtie);
    }
    const Algorithm algorithm = division.schedule.algorithm;
    if (inputs > 0 && reads_overlap(algorithm)) {
      division.ahead_blocks = static_cast<uint32_t>(ahead);
    } else if (outputs == 1 && writes_overlap(algorithm)) {
      ahead_outputs = ahead;
    }
    auto stairs = StairScheduler::open(division.schedule, {.block_bytes = block_bytes});
    if (!stairs) return std::unexpected(stairs.error());
    division.scheduler = std::move(*stairs);
    scheduler = division.scheduler.get();
  }
  const uint64_t output_blocks =
      inputs == 0 ? blocks
                  : ceil_div(scheduler->layout().output_memory_bytes, block_bytes) + lost_outputs +
                        ahead_outputs;
  division.output_blocks =
      outputs == 0
          ? 0
          : static_cast<uint32_t>(std::clamp(output_blocks, outputs_min, blocks - inputs_min));
  division.input_blocks = inputs == 0 ? 0 : static_cast<uint32_t>(blocks - division.output_blocks);
  return division;
}

// The blocks that a window covers behind the block of its first byte.
uint32_t in_order_comeback_blocks(const RunOptions& options) {
  return static_cast<uint32_t>(ceil_div(options.comeback_blocks * uint64_t{options.block_bytes},
                                        options.in_order_block_bytes));
}

Execution::Execution(std::vector<Input> inputs, std::vector<Output> outputs,
                     const RunOptions& options)
    : inputs_(std::move(inputs)), outputs_(std::move(outputs)), options_(options) {}

// The pool releases blocks that are still mapped.
Execution::~Execution() {
  gathered_.clear();  // gives back loans
  registration_ = {};
  io_.reset();
  engine_.reset();
  if (pool_ != nullptr && range_.bytes() != 0) pool_->release(range_);
}

Status Execution::open_inputs() {
  open_inputs_.resize(inputs_.size());
  for (uint32_t i = 0; i < inputs_.size(); ++i) {
    Input& input = inputs_[i];
    if ((input.file == nullptr) == input.path.empty())
      return failure(ErrorCode::invalid_argument, "use an input that is not one file or one path",
                     fmt::format("input {}", i));
    Result<io::File> opened;
    if (input.file == nullptr) {
      opened = io::File::open_input(input.path, options_.caching);
      if (!opened) return std::unexpected(opened.error());
      // A file that cannot be opened again stays open.
      if (!opened->seekable()) input.file = &open_inputs_[i].file.emplace(std::move(*opened));
    }
    const io::File& file = input.file != nullptr ? *input.file : *opened;
    const auto arrival = source::arrival_of(file, input.source);
    if (!arrival) return std::unexpected(arrival.error());
    InputPlace place{.in_order = arrival->in_order};
    uint64_t end_bytes = 0;
    if (!place.in_order) {
      auto size = file.size();
      if (!size) return std::unexpected(size.error());
      if (input.bytes == unknown_bytes) input.bytes = *size - std::min(*size, input.offset);
      if (input.offset > *size || input.bytes > *size - input.offset) {
        return failure(ErrorCode::invalid_argument,
                       fmt::format("read {} bytes at offset {}", input.bytes, input.offset),
                       file.path(), fmt::format("a stretch within its {} bytes", *size));
      }
      place.head_bytes = input.offset % io::sector_bytes;
      place.file_offset = input.offset - place.head_bytes;
      end_bytes = place.head_bytes + input.bytes;
      if (input.bytes == 0) end_bytes = 0;
      place.blocks_max = ceil_div(end_bytes, block_bytes_);
    } else if (input.offset != 0 || input.bytes != unknown_bytes) {
      return failure(ErrorCode::unsupported, "read a stretch of what has no offsets", file.path());
    }
    input_places_.push_back(place);
    MutexLock lock(mutex_);
    in_.emplace_back().end_bytes = end_bytes;
    in_order_.emplace_back().end_bytes = place.in_order ? unknown_bytes : 0;
  }
  for (uint32_t i = 0; i < inputs_.size(); ++i) {
    input_places_[i].name =
        inputs_[i].file != nullptr ? inputs_[i].file->path().c_str() : inputs_[i].path.c_str();
  }
  return {};
}

Status Execution::open_outputs() {
  uint64_t input_bytes = inputs_.size();  // a newline that each may lack
  for (const Input& input : inputs_)
    input_bytes += input.bytes != unknown_bytes ? input.bytes : unknown_input_bytes;
  const uint64_t usual = std::min(inputs_.empty() ? unknown_input_bytes : input_bytes,
                                  outputs_address_bytes() / std::max<size_t>(1, outputs_.size()));
  output_files_.resize(outputs_.size());
  // Each has two descriptors, a direct and a buffered one.
  constexpr size_t outputs_without_asking = 128;
  if (outputs_.size() > outputs_without_asking) (void)os::raise_open_files_limit();
  for (uint32_t j = 0; j < outputs_.size(); ++j) {
    Output& output = outputs_[j];
    if ((output.file != nullptr) == !output.path.empty()) {
      return failure(ErrorCode::invalid_argument, "use an output that is not one file or one path",
                     fmt::format("output {}", j));
    }
    OutputPlace place{.file = output.file};
    if (!output.path.empty()) {
      auto file = io::File::create_output(output.path, {.caching = options_.caching});
      if (!file) {
        Error error = file.error();
        if (error.system_errno == EMFILE)
          error.hint = "fewer outputs in several passes, or a higher limit (ulimit -n)";
        return std::unexpected(std::move(error));
      }
      output_files_[j] = std::move(*file);
      place.file = &*output_files_[j];
    }
    place.name = place.file->path().c_str();
    if (!place.file->seekable() && output.offset != 0) {
      return failure(ErrorCode::unsupported, "write at an offset of what has none", place.name);
    }
    place.head_bytes = output.offset % io::sector_bytes;
    place.file_offset = output.offset - place.head_bytes;
    const uint64_t bytes = output.bytes_max != 0 ? output.bytes_max : usual;
    // One more, so that a touch beyond the last block faults in the range.
    place.blocks_max = ceil_div(place.head_bytes + bytes, block_bytes_) + 1;
    output_places_.push_back(place);
  }
  return {};
}

Status Execution::reserve_addresses() {
  // One block more for each stream: the zeros behind an input, and the guard behind an output.
  uint64_t bytes = 0;
  const uint64_t step = std::max<uint64_t>(address_step, block_bytes_);
  auto add = [&](uint64_t blocks) {
    starts_.push_back(bytes);
    bytes += round_up((blocks + 1) * block_bytes_, step);
  };
  for (const InputPlace& place : input_places_) add(place.blocks_max);
  for (const OutputPlace& place : output_places_) add(place.blocks_max);
  auto range = pool_->reserve(bytes);
  if (!range) return std::unexpected(range.error());
  range_ = std::move(*range);
  for (size_t i = 0; i < input_places_.size(); ++i)
    input_places_[i].blocks = range_.begin() + starts_[i];
  for (size_t j = 0; j < output_places_.size(); ++j)
    output_places_[j].blocks = range_.begin() + starts_[input_places_.size() + j];
  auto registration = fault::Registration::add(range_.begin(), range_.bytes(), *this);
  if (!registration) return std::unexpected(registration.error());
  registration_ = std::move(*registration);
  return {};
}

Status Execution::open(Division division) {
  division_ = std::move(division);
  block_bytes_ = division_.block_bytes;
  scheduler_ = options_.scheduler != nullptr ? options_.scheduler : division_.scheduler.get();
  if (auto status = open_inputs(); !status) return status;
  if (auto status = open_outputs(); !status) return status;

  const uint32_t blocks = division_.input_blocks + division_.output_blocks;
  // Strict, in case the pool's mappings are shared: a touch of a released block has to fault.
  auto pool = pool::Pool::open({.block_bytes = block_bytes_, .blocks_max = blocks, .strict = true});
  if (!pool) return std::unexpected(pool.error());
  pool_ = std::move(*pool);
  const unsigned depth = options_.depth != 0
                             ? options_.depth
                             : static_cast<unsigned>(std::clamp<size_t>(
                                   in_flight_bytes / block_bytes_, depth_min, depth_max));
  auto engine = io::Engine::open({.depth = depth});
  if (!engine) return std::unexpected(engine.error());
  engine_ = std::move(*engine);
  io_.emplace(*pool_, *engine_);
  transfers_.resize(depth);
  of_streams_ = MemoryCharge((inputs_.size() + outputs_.size()) * table_bytes_per_stream);
  of_blocks_ = MemoryCharge(uint64_t{blocks} * table_bytes_per_block, MemoryKind::small);
  if (auto status = reserve_addresses(); !status) return status;

  MutexLock lock(mutex_);
  links_.assign(blocks, pool::no_block);
  has_arrived_.assign(blocks, false);
  out_.resize(outputs_.size());
  input_tables_freed_.resize(inputs_.size());
  output_tables_freed_.resize(outputs_.size());
  gathered_.resize(inputs_.size());
  streams_.execution_ = this;
  streams_.block_bytes_ = block_bytes_;
  streams_.window_bytes_max_ = block_bytes_ * std::max(1u, options_.comeback_blocks);
  streams_.item_bytes_max_ =
      options_.wide_windows ? blocks * block_bytes_ : streams_.window_bytes_max_;
  streams_.inputs_ = std::vector<InputStream>(inputs_.size());
  streams_.outputs_ = std::vector<OutputStream>(outputs_.size());
  const auto place_stream = [this](auto& stream, const auto& place, uint32_t index) {
    stream.execution_ = this;
    stream.index_ = index;
    stream.begin_ = place.blocks + place.head_bytes;
    stream.position_ = stream.begin_;
    stream.visible_end_ = stream.begin_;
    stream.release_at_ = place.blocks + block_bytes_;
  };
  for (uint32_t i = 0; i < inputs_.size(); ++i) {
    place_stream(streams_.inputs_[i], input_places_[i], i);
    inputs_reserved_ += reserve(i);
  }
  for (uint32_t j = 0; j < outputs_.size(); ++j) {
    place_stream(streams_.outputs_[j], output_places_[j], j);
    out_[j].handed_bytes = out_[j].submitted_bytes = output_places_[j].head_bytes;
  }
  return {};
}

uint64_t Execution::blocks_of(const InputLevel& level) const {
  return ceil_div(level.end_bytes, block_bytes_);
}

uint64_t Execution::held(uint32_t input) const {
  return in_[input].submitted - in_[input].released;
}

// The blocks that an input holds or, if more, may need at once; at its end, those that it holds.
uint64_t Execution::reserve(uint32_t input) const {
  const InputLevel& level = in_[input];
  const uint64_t left = blocks_of(level) - level.submitted;
  return std::max(held(input),
                  std::min<uint64_t>(uint64_t{options_.comeback_blocks} + 1, held(input) + left));
}

// The offset of an input's position, for estimates of its level.
uint64_t Execution::position_of(uint32_t input) const {
  const InputLevel& level = in_[input];
  if (level.is_gathered) return level.released * block_bytes_;
  return static_cast<uint64_t>(streams_.inputs_[input].position() - input_places_[input].blocks);
}

// Grants the loan that is asked for, if both sides can spare its blocks.
bool Execution::try_to_lend() {
  // (Outputs get pieces of items, of a block at most.)
  const uint64_t outputs_least =
      outputs_.empty() ? 0 : outputs_.size() * (std::min(options_.comeback_blocks, 1u) + 1) + 1;
  const uint64_t of_inputs = division_.input_blocks - inputs_lent_ - inputs_reserved_;
  const uint64_t outputs_used = outputs_lent_ + std::max(output_held_, outputs_least);
  const uint64_t of_outputs =
      division_.output_blocks - std::min<uint64_t>(division_.output_blocks, outputs_used);
  if (of_inputs + of_outputs < loan_wanted_) return false;
  const uint64_t from_inputs = std::min(of_inputs, loan_wanted_);
  inputs_lent_ += from_inputs;
  outputs_lent_ += std::exchange(loan_wanted_, 0) - from_inputs;
  return true;
}

void Execution::fail(Error error) {
  {
    MutexLock lock(mutex_);
    if (any_failed_.load(std::memory_order_relaxed)) return;
    error_ = std::move(error);
    any_failed_.store(true, std::memory_order_release);
    for (InOrder& input : in_order_) {
      if (input.stream) input.stream->cancel();
    }
    for_computation_.announce();
    for_device_.announce();
  }
  for (const OutputPlace& place : output_places_) {
    if (place.file != nullptr) place.file->cancel_writes();
  }
}

void Execution::fail_in_place(const Failed& failed) noexcept {
  MutexLock lock(mutex_);
  if (any_failed_.load(std::memory_order_relaxed)) return;
  failed_ = failed;
  failed_.any = true;
  any_failed_.store(true, std::memory_order_release);
  for_computation_.announce();
  for_device_.announce();
}

Status Execution::status() {
  if (!is_cancelled() && !failed()) return {};
  MutexLock lock(mutex_);
  if (error_) return std::unexpected(*error_);
  return std::unexpected(
      Error{failed_.code, failed_.attempted, failed_.subject, failed_.system_errno, failed_.hint});
}

Status Execution::publish() {
  std::vector<io::File*> files;
  for (auto& file : output_files_) {
    if (file) files.push_back(&*file);
  }
  return io::File::publish_all(files);
}

RunResult Execution::result() {
  result_.block_bytes = block_bytes_;
  result_.schedule = division_.schedule;
  {
    MutexLock lock(mutex_);
    result_.blocks_peak = held_peak_;
    for (size_t j = 0; j < out_.size(); ++j)
      result_.output_bytes.push_back(out_[j].submitted_bytes - output_places_[j].head_bytes);
  }
  if (options_.record_staircases) {
    result_.staircases.push_back({.schedule = division_.schedule,
                                  .inputs = static_cast<uint32_t>(inputs_.size()),
                                  .outputs = static_cast<uint32_t>(outputs_.size()),
                                  .input = stairs_.inputs(),
                                  .output = stairs_.outputs()});
  }
  if (const uint64_t switches = result_.switches(); switches > 0) {
    result_.run_bytes = static_cast<double>(result_.bytes_read + result_.bytes_written) /
                        static_cast<double>(switches);
  }
  DeviceProfile profile;
  if (const auto device = io::emulated()) {
    result_.emulated = device->describe();
    profile = {.name = "emulated",
               .source = result_.emulated,
               .read_bytes_per_s = device->read_bytes_per_s,
               .write_bytes_per_s = device->write_bytes_per_s,
               .switch_seconds = SwitchDelay(device->switch_seconds)};
  }
  if (options_.device != nullptr) profile = *options_.device;
  if (profile.read_bytes_per_s > 0 && options_.scheduler == nullptr) {
    const double bytes = static_cast<double>(result_.bytes_read + result_.bytes_written);
    if (bytes > 0) result_.prediction = predict(division_.schedule, bytes, profile);
  }
  return std::move(result_);
}

Result<RunResult> Execution::run(std::vector<Input> inputs, std::vector<Output> outputs,
                                 const Computation& computation, const RunOptions& options) {
  if (inputs.empty() && outputs.empty())
    return failure(ErrorCode::invalid_argument, "run without any stream", "run");
  const auto began = std::chrono::steady_clock::now();
  auto division =
      divide(static_cast<uint32_t>(inputs.size()), static_cast<uint32_t>(outputs.size()), options);
  if (!division) return std::unexpected(division.error());
  Execution execution(std::move(inputs), std::move(outputs), options);
  if (auto status = execution.open(std::move(*division)); !status)
    return std::unexpected(status.error());
  std::jthread device;
  if (auto status = start_thread(device, [&] { execution.work(); }); !status)
    return std::unexpected(status.error());
  auto computed = execution.compute(computation);
  device.join();
  if (auto status = execution.status(); !status) return std::unexpected(status.error());
  if (!computed) return std::unexpected(computed.error());
  if (auto status = execution.publish(); !status) return std::unexpected(status.error());
  execution.result_.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  return execution.result();
}

}  // namespace penstock::bowtie::internal

namespace penstock::bowtie {

uint64_t decoding_bytes(std::span<const Input> inputs, size_t at_once) {
  uint64_t all = 0, largest = 0;
  for (const Input& input : inputs) {
    all += input.decoding_bytes;
    largest = std::max(largest, input.decoding_bytes);
  }
  return std::min(all, at_once * largest);
}

RunOptions beside_in_order(std::span<const Input> inputs, RunOptions options) {
  constexpr uint64_t memory_part = 64;
  constexpr size_t block_bytes_enough = 1 * MiB;
  auto at_once = static_cast<uint64_t>(std::ranges::count(inputs, unknown_bytes, &Input::bytes));
  if (at_once == 0) return options;
  if (options.inputs_in_turn) at_once = 1;
  options.memory_bytes -= std::min(decoding_bytes(inputs, at_once), options.memory_bytes);
  const uint64_t share = std::max<uint64_t>(1, options.memory_bytes / memory_part / at_once);
  options.in_order_block_bytes =
      std::max(options.block_bytes, std::min<size_t>(std::bit_floor(share), block_bytes_enough));
  const uint64_t blocks =
      internal::in_order_ahead_blocks + uint64_t{internal::in_order_comeback_blocks(options)} + 1;
  options.memory_bytes -=
      std::min(at_once * blocks * options.in_order_block_bytes, options.memory_bytes);
  return options;
}

Result<RunResult> run(std::vector<Input> inputs, std::vector<Output> outputs,
                      const Computation& computation, const RunOptions& options) {
  return internal::Execution::run(std::move(inputs), std::move(outputs), computation, options);
}

}  // namespace penstock::bowtie
