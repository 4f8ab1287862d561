#include "stream/remap_stream.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/bits.h"
#include "base/check.h"
#include "os/futex.h"
#include "stream/mechanism.h"
#include "stream/recovery.h"

// How a stream of any length lives in N + L + M + 1 blocks of memory.
//
// The naive way is a queue of blocks behind an iterator: it works, and costs a comparison and a
// pointer reload per item in both loops, which the compiler can neither hoist nor vectorize. Guard
// pages on one buffer (Vortex-B) give plain pointers, but the kernel clears every page anew, and a
// reader that jumps over its guard reads half-written data. Here (Vortex-C, section 4.3) both sides
// have a reserved buffer of their own as long as the stream, in which nothing is mapped; a side's
// first touch of a block faults, and the fault is where the sides wait for each other and where the
// block appears.
//
// Which physical block. Let w be the writer's head (the last block it faulted in), c the reader's.
// The paper counts full and empty blocks with two semaphores (Algorithm 7). Counts cannot say where
// a block is when a producer faults out of order or a consumer jumps, so here the two heads
// themselves are the state, and the counts are their differences:
//
//   full blocks   released - (c + 1), where released = w - L: after a fault in w the producer never
//                 touches blocks below it;
//   empty blocks  c + N + L - w: the writer may have block x when x <= c + N + L (before the first
//                 read c = -1: N + L blocks).
//
// The live blocks, c - M to w, are then never more than N + L + M + 1, so block x always has slot x
// mod (N + L + M + 1), and its slot's old block, x - (N + L + M + 1), lies before c - M and before
// w - L: nobody may touch it any more. Nothing is ever put into a queue, so nothing can be lost,
// counted twice, or taken in a wrong order, whatever the sides skip.
//
// States of a slot, for a position x that it serves:
//
//   of an older position, anywhere --write fault in x--> at the writer --read fault in x--> at the reader
//                                                            |                                   |
//                    (x + slots)  <------------ write fault in x + slots ------------------------+
//
// One move per fault: the consumer's takes the block from the writer's address, the producer's
// takes it from where the reader (or, where the consumer jumped, the writer) left it. A position
// that the producer skipped, or one past the end, has no contents: the reader's fault takes the
// slot's block, clears it at home and maps it.
//
// Who blocks whom. Both first announce where they are, then wait:
//   producer in x:  w = max(w, x), which releases blocks below x - L; waits until x <= c + N + L.
//   consumer in y:  c = max(c, y), which makes room up to y + N + L; waits until y < released.
// So never both wait for each other: if y >= released = w - L, then w <= y + L <= c + N + L, and
// the producer may go on. (A thread that is both sides can wait for itself: it must not.) A third
// wait is short: for the thread that is moving the slot's block, which holds no lock and waits for
// nothing.
//
// The end. finish(n) releases everything up to n, fail() of the producer nothing more; both wake
// the consumer, for which blocks past the end then are errors or zeros. When the consumer gives up,
// c is taken as infinite: with ErrorPolicy::zeros the producer goes round in the slots. It can then
// take blocks from the reader's window, which is why a side that gives up or finishes must no
// longer use its pointer.
//
// Memory order. What the producer stored in a block is read by the consumer after: stores, mutex_
// (announcing x > block + L), mutex_ (seeing it), loads. The two views are different addresses of
// the same memory, and the mutex orders them as it orders anything else.
//
// Breaches of the rules: a store below w - L, a load below c - M. Fast, they are found when they
// fault, which is when the other side has taken the block (or its slot has been used again): until
// then the block is still at its old address, and such an access goes unnoticed, where it races
// with the other side. With the shared pool, which leaves old views mapped until a batch is full,
// that takes longer, and what is seen there may be a newer block's bytes. Options::strict takes
// away what a side must no longer touch before the other side is told (retire()), so that every
// breach faults and is reported; it costs one more move per block and side, a shootdown each. In
// both, an address that was never touched is never mapped early, so the waits above hold.
//
// Costs: one signal, one uncontended lock twice, one move per block and side. Fault path: allocates
// nothing, and the only lock it takes is mutex_, under which no user code runs and nothing faults.

namespace penstock::stream {

// ---- opening and closing

RemapStreamCore::RemapStreamCore(const Options& options)
    : options_(options),
      block_bytes_(options.block_bytes),
      ahead_(options.read_ahead_blocks),
      producer_comeback_(options.producer_comeback_blocks),
      consumer_comeback_(options.consumer_comeback_blocks),
      blocks_max_(Shape::of(options).blocks()) {}

Result<std::unique_ptr<RemapStreamCore>> RemapStreamCore::open(const Options& options) {
  const Shape shape = Shape::of(options);
  if (auto valid = shape.check(options.name); !valid) return std::unexpected(valid.error());
  std::unique_ptr<RemapStreamCore> core(new RemapStreamCore(options));

  // A short stream never has more live blocks than it has blocks, and the zeros behind the last.
  const uint32_t slots = shape.live_blocks();
  auto pool = pool::Pool::open({.block_bytes = options.block_bytes,
                                .blocks_max = slots,
                                .mechanism = pool_mechanism(options.mechanism),
                                .use = pool::Use::between_threads,
                                .strict = options.strict,
                                .system_calls = options.system_calls});
  if (!pool) return std::unexpected(pool.error());
  core->pool_ = std::move(*pool);

  for (os::Reservation& range : core->ranges_) {
    auto reserved =
        core->pool_->reserve(static_cast<uint64_t>(core->blocks_max_ + 1) * options.block_bytes);
    if (!reserved) return std::unexpected(reserved.error());
    range = std::move(*reserved);
  }
  core->slots_.resize(slots);
  for (Slot& slot : core->slots_) {
    slot.block = core->pool_->take();
    if (slot.block == pool::no_block) {
      return failure(ErrorCode::out_of_memory,
                     fmt::format("get {} blocks of {} bytes", slots, options.block_bytes),
                     options.name, "smaller or fewer blocks");
    }
  }
  for (size_t side = 0; side < 2; ++side) {
    auto registration =
        fault::Registration::add(core->ranges_[side].begin(), core->ranges_[side].bytes(), *core);
    if (!registration) return std::unexpected(registration.error());
    core->registrations_[side] = std::move(*registration);
    if (os::Userfault* events = core->pool_->events_of(core->ranges_[side])) {
      auto server = fault::EventServer::start(*events, *core);
      if (!server) return std::unexpected(server.error());
      core->events_[side] = std::move(*server);
    }
  }
  return core;
}

RemapStreamCore::~RemapStreamCore() {
  for (fault::EventServer& events : events_) events = {};
  for (fault::Registration& registration : registrations_) registration = {};
  for (const Slot& slot : slots_) {
    if (slot.block == pool::no_block) continue;
    if (slot.place != Place::home) {
      int error = pool_->unmap(slot.block, address(slot.place, slot.position));
      PENSTOCK_CHECK(error == 0, "a stream's block cannot be taken home");
    }
    pool_->give(slot.block);
  }
  for (os::Reservation& range : ranges_) {
    if (range.begin() != nullptr) pool_->release(range);
  }
}

// ---- serving a side that needs a block

// Fault path.
fault::Outcome RemapStreamCore::on_fault(const fault::Fault& fault) noexcept {
  // The range tells the side, not the kind of access: a producer may read what it wrote, a consumer
  // change what it read.
  Side side = side_of(fault.address);
  auto offset = static_cast<size_t>(fault.address - ranges_[index_of(side)].begin());
  auto position = static_cast<Position>(offset / block_bytes_);
  Verdict verdict = serve(side, position);
  if (verdict != Verdict::present) {
    if (fault.context == nullptr) return fault::Outcome::decline;  // that thread asks again itself
    give_up(verdict, side, position, fault.context);
  }
  return fault::Outcome::retry;
}

// With system_calls, a page of which on_fault() has declined the fault is poisoned, and its thread
// meets that as it would meet a memory error.
fault::Outcome RemapStreamCore::on_unservable(const fault::Fault& fault,
                                              fault::Unservable why) noexcept {
  const bool may_be_refused = why == fault::Unservable::memory_error && options_.system_calls;
  if (!may_be_refused || is_inherited()) return StreamHandler::on_unservable(fault, why);
  const Side side = side_of(fault.address);
  const auto offset = static_cast<size_t>(fault.address - ranges_[index_of(side)].begin());
  const auto position = static_cast<Position>(offset / block_bytes_);
  const Verdict verdict = serve(side, position);
  if (verdict == Verdict::present) return StreamHandler::on_unservable(fault, why);
  give_up(verdict, side, position, fault.context);
  return fault::Outcome::retry;
}

// Waits for the block and maps it: `present`, or why that cannot be. Algorithm 7's handler.
Verdict RemapStreamCore::serve(Side side, Position position) noexcept {
  mutex_.lock();
  Slot& slot = slot_of(position);
  Verdict verdict;
  if (int error = retire(side, position); error != 0) {
    map_errno_ = error;
    mutex_.unlock();
    return Verdict::unmapped;
  }
  announce(side, position);
  while ((verdict = judge(side, position)) == Verdict::wait || verdict == Verdict::wait_for_slot) {
    slot.awaited |= verdict == Verdict::wait_for_slot;
    changes_.wait(mutex_);
  }
  if (verdict == Verdict::take || verdict == Verdict::take_cleared) {
    slot.moving = true;
    mutex_.unlock();
    int error = move(slot, side, position, verdict == Verdict::take_cleared);
    mutex_.lock();
    slot.moving = false;
    if (error == 0) {
      slot.position = position;
      slot.place = side == Side::producer ? Place::writer : Place::reader;
      verdict = Verdict::present;
    } else {
      map_errno_ = error;
      verdict = Verdict::unmapped;
    }
    if (std::exchange(slot.awaited, false)) changes_.announce();
  }
  const std::span<std::byte> tables = left_behind(side);
  mutex_.unlock();
  // Where the system refuses, they stay: that costs memory, and nothing else.
  if (!tables.empty()) (void)pool_->free_page_tables(tables);
  return verdict;
}

// The pieces of a side's range that nobody will touch any more, as they are completed: no slot is
// there, and the side is past them.
std::span<std::byte> RemapStreamCore::left_behind(Side side) noexcept {
  const Place place = side == Side::producer ? Place::writer : Place::reader;
  const Position head = side == Side::producer ? writer_head_ : reader_head_;
  Position lowest = std::clamp<Position>(head - comeback_of(side), 0, blocks_max_);
  std::byte* const begin = ranges_[index_of(side)].begin();
  if (!passed_[index_of(side)].reaches(begin, address(place, lowest))) return {};
  for (const Slot& slot : slots_) {
    if (slot.place == place) lowest = std::min(lowest, slot.position);
  }
  return passed_[index_of(side)].pass(begin, address(place, lowest));
}

// Strict: takes away what a side that comes to `position` must no longer touch, before the other
// side is told: a block that the producer has completed, one that the consumer has left. 0 or an
// errno.
int RemapStreamCore::retire(Side side, Position position) noexcept {
  if (!options_.strict || phase_[index_of(side)] != Phase::active) return 0;
  if (side == Side::producer && position >= blocks_max_) return 0;  // it will not get there
  return retire_below(side, position - comeback_of(side));
}

int RemapStreamCore::retire_below(Side side, Position kept) noexcept {
  if (!options_.strict) return 0;
  const Place place = side == Side::producer ? Place::writer : Place::reader;
  for (Slot& slot : slots_) {
    if (slot.place != place || slot.position >= kept || slot.moving) continue;
    slot.moving = true;
    mutex_.unlock();
    const int error = pool_->unmap(slot.block, address(place, slot.position));
    mutex_.lock();
    slot.moving = false;
    if (error == 0) slot.place = Place::home;
    if (std::exchange(slot.awaited, false)) changes_.announce();
    if (error != 0) return error;
  }
  return 0;
}

// A side that is done. What the system refuses to unmap stays where it is until the other side
// needs it: a breach is then found later, nothing else suffers.
void RemapStreamCore::retire_all(Side side) noexcept {
  (void)retire_below(side, blocks_max_ + 1);
}

// Tells where a side is, before it waits: a producer blocked in x has still completed the blocks
// below x - L.
void RemapStreamCore::announce(Side side, Position position) noexcept {
  if (phase_[index_of(side)] != Phase::active) return;
  if (side == Side::producer) {
    if (position <= writer_head_ || position >= blocks_max_) return;
    writer_head_ = position;
    released_ = std::max(released_, position - producer_comeback_);
  } else {
    if (position <= reader_head_) return;
    reader_head_ = position;
  }
  changes_.announce();
}

Verdict RemapStreamCore::judge(Side side, Position position) const noexcept {
  const Slot& slot = slot_of(position);
  Place place = side == Side::producer ? Place::writer : Place::reader;
  if (slot.moving) return Verdict::wait_for_slot;
  if (slot.position == position && slot.place == place) return Verdict::present;
  if (phase_[index_of(side)] != Phase::active) return Verdict::side_ended;
  return side == Side::producer ? judge_writer(position) : judge_reader(position);
}

Verdict RemapStreamCore::judge_writer(Position position) const noexcept {
  if (position >= blocks_max_) return Verdict::past_capacity;
  if (position < writer_head_ - producer_comeback_) return Verdict::behind_window;
  if (phase_[index_of(Side::consumer)] == Phase::failed) {
    return options_.policy == ErrorPolicy::zeros ? Verdict::take : Verdict::other_failed;
  }
  return position <= reader_head_ + ahead_ + producer_comeback_ ? Verdict::take : Verdict::wait;
}

Verdict RemapStreamCore::judge_reader(Position position) const noexcept {
  if (position < reader_head_ - consumer_comeback_) return Verdict::behind_window;
  if (position < released_) {
    const Slot& slot = slot_of(position);
    return slot.position == position ? Verdict::take : Verdict::take_cleared;  // or never written
  }
  bool zeros = options_.policy == ErrorPolicy::zeros;
  switch (phase_[index_of(Side::producer)]) {
    case Phase::active:
      return Verdict::wait;
    case Phase::failed:
      return zeros ? Verdict::take_cleared : Verdict::other_failed;
    case Phase::finished:
      break;
  }
  return zeros || position == released_ ? Verdict::take_cleared : Verdict::past_end;
}

// Moves a slot's block to a position of a side. REQUIRES: the caller has set `moving`. 0 or an
// errno.
int RemapStreamCore::move(const Slot& from, Side side, Position position, bool cleared) noexcept {
  std::byte* to = address(side == Side::producer ? Place::writer : Place::reader, position);
  bool at_home = from.place == Place::home;
  if (!at_home && !cleared) return pool_->remap(from.block, address(from.place, from.position), to);
  if (!at_home) {
    if (int error = pool_->unmap(from.block, address(from.place, from.position)); error != 0)
      return error;
  }
  if (cleared) std::memset(pool_->home(from.block), 0, block_bytes_);
  return pool_->map(from.block, to);
}

// ---- what cannot be served

// Ends the process, or sends the interrupted code to its recovery point. (What zeros can mend,
// judge() has let pass.)
void RemapStreamCore::give_up(Verdict verdict, Side side, Position position,
                              void* context) const noexcept {
  char text[400];
  ErrorCode code = write_reason(text, sizeof text, verdict, side, position);
  ErrorPolicy policy =
      options_.policy == ErrorPolicy::recover ? ErrorPolicy::recover : ErrorPolicy::stop;
  Failure failure{
      .code = code, .attempted = text, .subject = options_.name.c_str(), .system_errno = 0};
  [[maybe_unused]] bool recovered = stream::fail(policy, failure, context);
}

Error RemapStreamCore::error_of(Verdict verdict, Side side, Position position) const {
  if (verdict == Verdict::other_failed) {
    MutexLock lock(mutex_);
    return *error_[index_of(other(side))];
  }
  char text[400];
  ErrorCode code = write_reason(text, sizeof text, verdict, side, position);
  return Error{code, text, options_.name};
}

// May stand on the fault path: the text goes to the caller's stack.
ErrorCode RemapStreamCore::write_reason(char* text, size_t text_bytes, Verdict verdict, Side side,
                                        Position position) const noexcept {
  MutexLock lock(mutex_);
  const std::optional<Error>& others = error_[index_of(other(side))];
  return write_refusal({.verdict = verdict,
                        .side = side,
                        .position = position,
                        .head = side == Side::producer ? writer_head_ : reader_head_,
                        .comeback = comeback_of(side),
                        .capacity_bytes = options_.bytes,
                        .end_bytes = end_bytes_,
                        .map_errno = map_errno_,
                        .other_reason = reason_[index_of(other(side))].c_str(),
                        .other_code = others ? others->code : ErrorCode::cancelled},
                       text, text_bytes);
}

// ---- calls of the two sides

Status RemapStreamCore::prepare(Side side, const void* address, size_t bytes) {
  if (auto owned = check_owned("prepare memory"); !owned) return std::unexpected(owned.error());
  if (bytes == 0) return {};
  auto blocks = BlockRange::of(address, bytes, ranges_[index_of(side)], block_bytes_, side,
                               comeback_of(side), options_.name);
  if (!blocks) return std::unexpected(std::move(blocks.error()));
  for (Position position = blocks->first; position <= blocks->last; ++position) {
    Verdict verdict = serve(side, position);
    if (verdict != Verdict::present) return std::unexpected(error_of(verdict, side, position));
  }
  return {};
}

Result<size_t> RemapStreamCore::prepare(std::byte* address, size_t bytes, fault::Access) {
  const Side side = side_of(address);
  const size_t fits =
      bytes_in_window(address, bytes, ranges_[index_of(side)], block_bytes_, comeback_of(side));
  if (auto prepared = prepare(side, address, fits); !prepared) {
    return std::unexpected(std::move(prepared.error()));
  }
  return fits;
}

Status RemapStreamCore::finish(uint64_t bytes) {
  if (auto owned = check_owned("finish"); !owned) return std::unexpected(owned.error());
  auto refuse = [&](std::string hint) {
    return failure(ErrorCode::invalid_argument, fmt::format("finish at {} bytes", bytes),
                   options_.name, std::move(hint));
  };
  mutex_.lock();
  if (phase_[index_of(Side::producer)] != Phase::active) {
    mutex_.unlock();
    return refuse("finish once, and not after fail()");
  }
  if (bytes > options_.bytes || bytes < static_cast<uint64_t>(released_) * block_bytes_) {
    std::string hint = fmt::format("{} bytes are with the consumer, {} is the capacity",
                                   static_cast<uint64_t>(released_) * block_bytes_, options_.bytes);
    mutex_.unlock();
    return refuse(std::move(hint));
  }
  // The block that holds the end may carry bytes of an older position behind it.
  auto last = static_cast<Position>(bytes / block_bytes_);
  size_t used = bytes % block_bytes_;
  Slot& slot = slot_of(last);
  // Who serves a fault for the producer may not yet have noted that the block is there.
  while (slot.moving) {
    slot.awaited = true;
    changes_.wait(mutex_);
  }
  if (used != 0 && slot.position == last && slot.place == Place::writer) {
    mutex_.unlock();
    std::memset(address(Place::writer, last) + used, 0, block_bytes_ - used);
    mutex_.lock();
  }
  retire_all(Side::producer);
  released_ = static_cast<Position>(ceil_div(bytes, block_bytes_));
  end_bytes_ = bytes;
  phase_[index_of(Side::producer)] = Phase::finished;
  changes_.announce();
  std::optional<Error> error = error_[index_of(Side::consumer)];
  mutex_.unlock();
  if (error) return std::unexpected(std::move(*error));
  return {};
}

Result<uint64_t> RemapStreamCore::wait_ready(uint64_t offset) {
  if (auto owned = check_owned("wait for data"); !owned) return std::unexpected(owned.error());
  // Beyond the capacity nothing comes but the end.
  const auto position = static_cast<Position>(
      std::min<uint64_t>(offset / block_bytes_, static_cast<uint64_t>(blocks_max_)));
  Verdict verdict;
  {
    MutexLock lock(mutex_);
    const int error = retire(Side::consumer, position);
    if (error != 0) map_errno_ = error;
    if (error == 0) announce(Side::consumer, position);
    while (error == 0 && phase_[0] == Phase::active && phase_[1] == Phase::active &&
           position >= released_) {
      changes_.wait(mutex_);
    }
    if (phase_[0] == Phase::finished) return end_bytes_;
    if (position < released_) return static_cast<uint64_t>(released_) * block_bytes_;
    if (phase_[0] == Phase::failed) return std::unexpected(*error_[0]);
    verdict = error != 0 ? Verdict::unmapped : Verdict::side_ended;
  }
  return std::unexpected(error_of(verdict, Side::consumer, position));
}

void RemapStreamCore::fail(Side side, Error error) {
  if (is_inherited()) return;
  std::string reason = error.message();
  MutexLock lock(mutex_);
  size_t index = index_of(side);
  if (phase_[index] != Phase::active) return;
  retire_all(side);
  phase_[index] = Phase::failed;
  error_[index] = std::move(error);
  reason_[index] = std::move(reason);
  changes_.announce();
}

Status RemapStreamCore::status() const {
  if (auto owned = check_owned("know the state"); !owned) return std::unexpected(owned.error());
  MutexLock lock(mutex_);
  for (const std::optional<Error>& error : error_) {
    if (error) return std::unexpected(*error);
  }
  return {};
}

}  // namespace penstock::stream

// ---- the public class

namespace penstock {

RemapStream::RemapStream(std::unique_ptr<stream::RemapStreamCore> core) : core_(std::move(core)) {}
RemapStream::RemapStream(RemapStream&&) noexcept = default;
RemapStream& RemapStream::operator=(RemapStream&&) noexcept = default;
RemapStream::~RemapStream() = default;

Result<RemapStream> RemapStream::open(const Options& options) {
  auto core = stream::RemapStreamCore::open(options);
  if (!core) return std::unexpected(std::move(core.error()));
  return RemapStream(std::move(*core));
}

Status RemapStream::prepare_write(const void* address, size_t bytes) {
  return core_->prepare(Side::producer, address, bytes);
}
Status RemapStream::prepare_read(const void* address, size_t bytes) {
  return core_->prepare(Side::consumer, address, bytes);
}
Status RemapStream::finish(uint64_t bytes) {
  return core_->finish(bytes);
}
Result<uint64_t> RemapStream::wait_ready(uint64_t offset) {
  return core_->wait_ready(offset);
}
void RemapStream::fail(Side side, Error error) {
  core_->fail(side, std::move(error));
}
void RemapStream::cancel(Side side) {
  fail(side, Error{.code = ErrorCode::cancelled, .attempted = "go on: the other side cancelled"});
}
Status RemapStream::status() const {
  return core_->status();
}
RemapStream::Mechanism RemapStream::mechanism() const {
  return stream::public_mechanism(core_->pool().mechanism());
}
uint64_t RemapStream::memory_bytes() const {
  return uint64_t{core_->pool().blocks_committed()} * core_->pool().block_bytes();
}
std::byte* RemapStream::writer_address() const {
  return core_->writer();
}
std::byte* RemapStream::reader_address() const {
  return core_->reader();
}

}  // namespace penstock
