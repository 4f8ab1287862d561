// The device's thread of a run, which drives a Scheduler (scheduler.h; the other driver is the
// simulator of papers/bowtie). One function per kind of action, with the action's name.

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>

#include "base/bits.h"
#include "base/check.h"
#include "base/out_of_memory.h"
#include "files/bowtie/execution.h"

namespace penstock::bowtie::internal {
namespace {

// A policy that answers this many actions in a row without moving anything, while the computation
// makes no progress, is wrong.
constexpr int idle_actions_max = 64;
// Open inputs that were given by path. Each has two descriptors, a direct and a buffered one.
constexpr uint32_t inputs_open_max = 200;
// The steady state, as shares of the inputs' bytes that are consumed; the simulator uses the same.
constexpr double steady_from = 0.3;
constexpr double steady_to = 0.9;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

// Runs the device's side to its end. Requests in flight end before their buffers are freed.
void Execution::work() {
  const auto carry_out = [this](void (Execution::*step)()) {
    const Status done = or_out_of_memory([&]() -> Status {
      (this->*step)();
      return {};
    });
    if (!done) fail(done.error());
  };
  carry_out(&Execution::act_until_all_is_done);
  open_gate(true);
  while (in_flight_ > 0) carry_out(&Execution::finish_one);
  carry_out(&Execution::close_run);
}

void Execution::act_until_all_is_done() {
  view_in_.resize(inputs_.size());
  view_left_.resize(inputs_.size());
  view_consumed_.resize(inputs_.size());
  view_out_.resize(outputs_.size());
  view_ = {.input_bytes = view_in_,
           .input_left_bytes = view_left_,
           .input_consumed_bytes = view_consumed_,
           .output_bytes = view_out_};
  auto progress = [this] {
    MutexLock lock(mutex_);
    return submitted_bytes_ + steps_ + (computed_ ? 1 : 0);
  };
  int idle = 0;
  while (!failed()) {
    if (serve_loan()) continue;
    const Action action = scheduler_->next(look());
    if (options_.observe) options_.observe(view_, action);
    if (options_.record_staircases) stairs_.note(view_, action, in_steady_state());
    if (action.kind == Action::Kind::finish) {
      bool left = false;
      {
        MutexLock lock(mutex_);
        left = !computed_;
        for (const OutputLevel& level : out_) left |= level.submitted_bytes < level.handed_bytes;
      }
      if (left) {
        fail({ErrorCode::invalid_argument, "finish under this policy, which leaves work",
              "scheduler"});
      }
      break;
    }
    const uint64_t before = progress();
    perform(action);
    ++result_.actions;
    idle = progress() != before ? 0 : idle + 1;
    // (While memory is lent, reads of inputs for which it has no room move nothing.)
    if (idle >= idle_actions_max + static_cast<int>(inputs_.size())) {
      fail({ErrorCode::invalid_argument, "get on under this policy, which moves nothing",
            "scheduler"});
    }
  }
}

// Returns the reason why the computation waits, unless a request in flight will end the wait.
Execution::Stalled Execution::stalled() const {
  if (computed_) return {Stall::finished};
  if (wait_.what == Wait::For::loan) return {.for_loan = loan_wanted_ > 0};
  if (wait_.what == Wait::For::input) {
    const InputLevel& level = in_[wait_.stream];
    const bool comes = level.submitted > level.mapped || level.mapped >= blocks_of(level);
    return comes ? Stalled{} : Stalled{Stall::input, wait_.stream};
  }
  if (wait_.what == Wait::For::output) {
    const bool comes =
        writes_in_flight_ > 0 || output_held_ < division_.output_blocks - outputs_lent_;
    return comes ? Stalled{} : Stalled{Stall::outputs};
  }
  return {};
}

// Updates the scheduler's view.
const View& Execution::look() {
  MutexLock lock(mutex_);
  const Stalled now = stalled();
  view_.stall = now.stall;
  view_.stalled_input = now.input;
  for (uint32_t i = 0; i < in_.size(); ++i) {
    const InputLevel& level = in_[i];
    const uint64_t here = std::min(level.submitted * block_bytes_, level.end_bytes);
    uint64_t consumed = std::min(std::max(position_of(i), level.touched_bytes), here);
    // A stalled computation cannot go on with the piece of an item: count it as consumed.
    if (now.stall == Stall::input && now.input == i) consumed = here;
    // Never less than before, because such a piece may have been counted.
    consumed = std::max(consumed, view_consumed_[i]);
    view_consumed_[i] = consumed;
    view_in_[i] = here - std::min(here, consumed);
    if (now.stall == Stall::finished) view_in_[i] = 0;
    view_left_[i] = now.stall == Stall::finished ? 0 : level.end_bytes - here;
  }
  view_.more_comes =
      std::ranges::find(in_order_, unknown_bytes, &InOrder::end_bytes) != in_order_.end();
  for (uint32_t j = 0; j < out_.size(); ++j)
    view_out_[j] = out_[j].handed_bytes - out_[j].submitted_bytes;
  return view_;
}

// True between the first fill of the memory and the last flush, as of the last view. The progress
// is known if all inputs have a length.
bool Execution::in_steady_state() const {
  uint64_t consumed = 0, all = 0;
  for (size_t i = 0; i < view_in_.size(); ++i) {
    if (input_places_[i].in_order) return false;  // no length
    consumed += view_consumed_[i];
    all += view_consumed_[i] + view_in_[i] + view_left_[i];
  }
  const auto done = static_cast<double>(consumed), total = static_cast<double>(all);
  return done >= steady_from * total && done <= steady_to * total;
}

void Execution::open_gate(bool open) {
  MutexLock lock(mutex_);
  gate_open_ = open;
  if (open) for_computation_.announce();
}

void Execution::perform(const Action& action) {
  const bool overlapped = action.overlapped || action.kind == Action::Kind::compute;
  open_gate(overlapped || options_.never_rests);
  const double began = now_seconds();
  switch (action.kind) {
    case Action::Kind::read:
      PENSTOCK_CHECK(action.stream < inputs_.size(), "an input that is not there");
      action.overlapped ? stream_in(action) : read(action);
      break;
    case Action::Kind::write:
      PENSTOCK_CHECK(action.stream < outputs_.size(), "an output that is not there");
      action.overlapped ? stream_out(action) : write(action);
      break;
    default:
      run_computation();
  }
  const double seconds = now_seconds() - began;
  (action.kind == Action::Kind::compute ? result_.seconds_computing_alone
   : action.overlapped                  ? result_.seconds_overlapped
   : action.kind == Action::Kind::read  ? result_.seconds_reading
                                        : result_.seconds_writing) += seconds;
}

// ---- The actions.

// Reads whole blocks, at least one.
void Execution::read(const Action& action) {
  const uint64_t blocks = std::max<uint64_t>(1, action.bytes / block_bytes_);
  for (uint64_t k = 0; k < blocks && !failed(); ++k) {
    {
      MutexLock lock(mutex_);
      if (room_blocks(action.stream) == 0) return;
    }
    if (!submit_read(action.stream)) return;
  }
}

void Execution::stream_in(const Action& action) {
  const uint32_t input = action.stream;
  const uint64_t ahead = uint64_t{division_.ahead_blocks} * block_bytes_;
  while (!failed()) {
    bool read_on = false;
    {
      MutexLock lock(mutex_);
      const Stalled now = stalled();
      const bool waited_for = now.stall == Stall::input && now.input == input;
      if (now.waits() && !waited_for) return;
      const InputLevel& level = in_[input];
      if (level.submitted >= blocks_of(level)) return;
      const uint64_t here = level.submitted * block_bytes_;
      const uint64_t bucket =
          here - std::min(here, std::max(position_of(input), level.touched_bytes));
      read_on =
          room_blocks(input) > 0 && (waited_for || bucket + block_bytes_ <= action.bytes + ahead);
    }
    if (read_on) {
      if (!submit_read(input)) return;
    } else if (in_flight_ > 0) {
      finish_one();
    } else {
      // The bucket is full: wait until the computation makes room in it, or waits itself.
      wait_for_computation();
    }
  }
}

void Execution::write(const Action& action) {
  const uint64_t blocks = std::max<uint64_t>(1, action.bytes / block_bytes_);
  for (uint64_t k = 0; k < blocks && !failed(); ++k) {
    if (!submit_write(action.stream)) return;
  }
}

void Execution::stream_out(const Action& action) {
  while (!failed()) {
    {
      MutexLock lock(mutex_);
      const Stalled now = stalled();
      if (now.stall == Stall::input || now.stall == Stall::finished || now.for_loan) return;
    }
    if (submit_write(action.stream)) continue;
    if (!action.stay) return;
    if (in_flight_ > 0) {
      finish_one();
    } else {
      wait_for_computation();
    }
  }
}

// Runs the computation until it waits for something that has to be moved.
void Execution::run_computation() {
  while (!failed()) {
    {
      MutexLock lock(mutex_);
      if (stalled().waits()) return;
    }
    if (in_flight_ > 0) {
      finish_one();
    } else {
      wait_for_computation();
    }
  }
}

// REQUIRES: nothing is in flight, so that only the computation, which runs, can change anything.
void Execution::wait_for_computation() {
  MutexLock lock(mutex_);
  const uint64_t seen = steps_;
  while (!stalled().waits() && steps_ == seen && !failed()) for_device_.wait(mutex_);
}

// ---- Requests.

// Blocks that may still be submitted for an input without breaking the invariant of the reserves.
uint64_t Execution::room_blocks(uint32_t input) const {
  const uint64_t others = inputs_reserved_ - reserve(input);
  return division_.input_blocks - inputs_lent_ - others - held(input);
}

// ---- Loans.

// Finds memory for the loan that the computation waits for, or refuses it. Returns false if it waits
// for none.
bool Execution::serve_loan() {
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (wait_.what != Wait::For::loan || loan_wanted_ == 0 || failed()) return false;
      if (try_to_lend()) {
        for_computation_.announce();
        return true;
      }
    }
    bool writes = false;
    for (uint32_t j = 0; j < outputs_.size(); ++j) {
      while (submit_write(j)) writes = true;
    }
    if (writes) continue;
    if (in_flight_ > 0) {
      finish_one();
    } else if (!drop_read_ahead()) {
      MutexLock lock(mutex_);
      loan_refused_ = true;
      loan_wanted_ = 0;
      for_computation_.announce();
      return true;
    }
  }
}

// Drops blocks from the end of the input that has most of them before it needs them, up to half of
// those. Returns false if there are none. REQUIRES: nothing is in flight.
bool Execution::drop_read_ahead() {
  std::vector<pool::BlockId> dropped;
  {
    MutexLock lock(mutex_);
    uint64_t most = 0;
    uint32_t input = 0;
    for (uint32_t i = 0; i < in_.size(); ++i) {
      const InputLevel& level = in_[i];
      const uint64_t kept =
          std::max<uint64_t>(uint64_t{options_.comeback_blocks} + 1, level.mapped - level.released);
      const uint64_t spare = held(i) - std::min(held(i), kept);
      if (spare > most) {
        most = spare;
        input = i;
      }
    }
    if (most == 0) return false;
    InputLevel& level = in_[input];
    const uint64_t before = reserve(input);
    const uint64_t count = ceil_div(most, uint64_t{2});
    BlockQueue kept;
    for (uint64_t left = held(input) - count; left > 0; --left)
      kept.push_back(links_, level.held.pop_front(links_));
    for (uint64_t k = 0; k < count; ++k) dropped.push_back(level.held.pop_front(links_));
    level.held = kept;
    level.submitted -= count;
    level.arrived = level.submitted;
    input_held_ -= count;
    inputs_reserved_ -= before - reserve(input);
  }
  for (const pool::BlockId block : dropped) pool_->give(block);
  return true;
}

Execution::Transfer& Execution::free_transfer() {
  while (in_flight_ == transfers_.size()) finish_one();
  return *std::find_if(transfers_.begin(), transfers_.end(),
                       [](const Transfer& transfer) { return !transfer.busy; });
}

// Submits the read of an input's next block. Returns false if there is none, or if the run has
// failed. REQUIRES: room_blocks() > 0.
bool Execution::submit_read(uint32_t input) {
  const InputPlace& place = input_places_[input];
  const io::File* file = file_of(input);
  if (file == nullptr) return false;
  Transfer& transfer = free_transfer();
  const pool::BlockId block = pool_->take();
  if (block == pool::no_block) {
    fail({ErrorCode::out_of_memory, "find a free block to read", place.name, 0,
          "less memory for the run"});
    return false;
  }
  uint64_t number = 0;
  uint64_t bytes = 0;
  {
    MutexLock lock(mutex_);
    InputLevel& level = in_[input];
    number = level.submitted;
    if (failed() || number >= blocks_of(level)) {
      pool_->give(block);
      return false;
    }
    bytes = std::min<uint64_t>(block_bytes_, level.end_bytes - number * block_bytes_);
    const uint64_t before = reserve(input);
    level.held.push_back(links_, block);
    has_arrived_[block] = false;
    if (level.arrived == level.submitted) level.next_to_arrive = block;
    ++level.submitted;
    ++input_held_;
    inputs_reserved_ += reserve(input) - before;
    held_peak_ = std::max(held_peak_, input_held_ + output_held_);
  }
  transfer.busy = true;
  transfer.stream = input;
  transfer.block = block;
  transfer.bytes_wanted = static_cast<uint32_t>(bytes);
  // Whole sectors, so that the last read of a file is direct too.
  transfer.request = {.operation = io::Operation::read,
                      .file = file,
                      .offset = place.file_offset + number * block_bytes_,
                      .data = pool_->home(block),
                      .bytes = round_up(bytes, io::sector_bytes),
                      .tag = static_cast<uint64_t>(&transfer - transfers_.data())};
  ++in_flight_;
  ++open_inputs_[input].in_flight;
  engine_->submit(transfer.request);
  count(false, input, bytes);
  return true;
}

// Submits the write of an output's next full block. Returns false if there is none, or if the run
// has failed.
bool Execution::submit_write(uint32_t output) {
  const OutputPlace& place = output_places_[output];
  {
    MutexLock lock(mutex_);
    const OutputLevel& level = out_[output];
    if (failed() || level.submitted >= level.handed) return false;
  }
  Transfer& transfer = free_transfer();
  uint64_t from = 0;
  uint64_t bytes = 0;
  uint64_t number = 0;
  pool::BlockId block = pool::no_block;
  {
    MutexLock lock(mutex_);
    OutputLevel& level = out_[output];
    number = level.submitted;
    block = level.held.pop_front(links_);
    from = level.submitted_bytes - number * block_bytes_;
    bytes = std::min((number + 1) * block_bytes_, level.handed_bytes) - level.submitted_bytes;
    level.submitted_bytes += bytes;
    ++level.submitted;
    ++writes_in_flight_;
  }
  count(true, output, bytes);
  transfer.busy = true;
  transfer.stream = output;
  transfer.block = block;
  if (outputs_[output].whole_sectors) bytes = round_up(from + bytes, io::sector_bytes) - from;
  transfer.request = {.operation = io::Operation::write,
                      .file = place.file,
                      .offset = place.file_offset + number * block_bytes_ + from,
                      .data = pool_->home(block) + from,
                      .bytes = bytes,
                      .tag = static_cast<uint64_t>(&transfer - transfers_.data())};
  ++in_flight_;
  engine_->submit(transfer.request);
  return true;
}

// Waits for one of the requests in flight.
void Execution::finish_one() {
  if (options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed))
    fail({ErrorCode::cancelled, "go on", "run"});
  io::Request* request = engine_->wait_any();
  PENSTOCK_CHECK(request != nullptr, "a request is in flight");
  Transfer& transfer = transfers_[request->tag];
  transfer.busy = false;
  --in_flight_;
  request->operation == io::Operation::read ? finish_read(transfer) : finish_write(transfer);
}

void Execution::finish_read(Transfer& transfer) {
  const io::Request& request = transfer.request;
  const uint32_t input = transfer.stream;
  const InputPlace& place = input_places_[input];
  --open_inputs_[input].in_flight;
  const size_t bytes = std::min<size_t>(request.done_bytes, transfer.bytes_wanted);
  if (request.error != 0) {
    Error error = io::error_of(request);
    if (request.error != io::damaged) error.subject = place.name;
    return fail(std::move(error));
  }
  if (bytes < transfer.bytes_wanted) {
    return fail({ErrorCode::corrupt,
                 "read " + std::to_string(transfer.bytes_wanted) + " bytes at offset " +
                     std::to_string(request.offset) + ", the file is shorter than it was",
                 place.name});
  }
  std::memset(pool_->home(transfer.block) + bytes, 0, block_bytes_ - bytes);
  MutexLock lock(mutex_);
  InputLevel& level = in_[input];
  has_arrived_[transfer.block] = true;
  while (level.arrived < level.submitted && has_arrived_[level.next_to_arrive]) {
    ++level.arrived;
    level.next_to_arrive = links_[level.next_to_arrive];
  }
  for_computation_.announce();
}

void Execution::finish_write(Transfer& transfer) {
  const io::Request& request = transfer.request;
  pool_->give(transfer.block);
  {
    MutexLock lock(mutex_);
    --output_held_;
    --writes_in_flight_;
    for_computation_.announce();
  }
  if (request.error != 0) fail(io::error_of(request));
}

// Returns an input's file, and opens it if necessary. Few files are open at a time: the one unused
// for longest is closed first.
const io::File* Execution::file_of(uint32_t input) {
  if (inputs_[input].file != nullptr) return inputs_[input].file;
  OpenInput& open = open_inputs_[input];
  open.used_at = ++uses_;
  if (open.file) return &*open.file;
  auto close_oldest = [this] {
    OpenInput* oldest = nullptr;
    for (uint32_t i = 0; i < open_inputs_.size(); ++i) {
      OpenInput& other = open_inputs_[i];
      if (!other.file || inputs_[i].file != nullptr || other.in_flight > 0) continue;
      if (oldest == nullptr || other.used_at < oldest->used_at) oldest = &other;
    }
    if (oldest == nullptr) return false;
    oldest->file.reset();
    --inputs_open_;
    return true;
  };
  while (inputs_open_ >= inputs_open_max && close_oldest()) {
  }
  auto make_room = [&] {
    while (!close_oldest()) {
      if (in_flight_ == 0) return false;
      finish_one();
    }
    return true;
  };
  auto file = io::File::open_read(inputs_[input].path, options_.caching);
  while (!file && file.error().system_errno == EMFILE && make_room())
    file = io::File::open_read(inputs_[input].path, options_.caching);
  if (!file) {
    fail(file.error());
    return nullptr;
  }
  open.file = std::move(*file);
  ++inputs_open_;
  return &*open.file;
}

// ---- Statistics, counted as the simulator does.

void Execution::count(bool write, uint32_t stream, uint64_t bytes) {
  if (bytes == 0) return;
  if (write != at_write_ || stream != at_stream_) {
    close_run();
    ++(write ? result_.write_switches : result_.read_switches);
    at_write_ = write;
    at_stream_ = stream;
  }
  run_now_bytes_ += bytes;
  submitted_bytes_ += bytes;
  (write ? result_.bytes_written : result_.bytes_read) += bytes;
}

void Execution::close_run() {
  if (run_now_bytes_ == 0) return;
  const bool first = result_.run_bytes_max == 0;
  result_.run_bytes_min = first ? run_now_bytes_ : std::min(result_.run_bytes_min, run_now_bytes_);
  result_.run_bytes_max = std::max(result_.run_bytes_max, run_now_bytes_);
  run_now_bytes_ = 0;
}

}  // namespace penstock::bowtie::internal
