// How two sides share one stream of any length in a few blocks of memory.
//
// A queue of blocks behind an iterator costs a comparison and a pointer reload per item in both
// loops, which the compiler can neither hoist nor vectorize. Here each side has a plain pointer to
// reserved addresses as long as the stream, in which nothing is mapped. A side's first touch of a
// block faults. In the fault the sides wait for each other, and the block appears; between two
// faults nothing is called.
//
// This file is that machine (Algorithm 7 of the paper). Three streams are built on it. They differ
// in how a block appears at an address and vanishes again, in a few virtual functions:
//
//                  the sides are     a block appears by                    vanishes by
//   RemapStream    two threads       moving from the other side's address  the other side's fault
//   GuardStream    two threads that  mprotect() of fresh memory, or of     a guard behind the
//                  see one address   what the producer left there          producer; decommit
//   ProcessStream  two processes     mapping its slot of a memory file     unmapping, in batches
//
// Positions. Let w be the producer's head, the last block that it came to, and c the consumer's;
// both are -1 before the first. The paper counts full and empty blocks with two semaphores. Counts
// cannot say where a block is when a producer faults out of order or a consumer jumps, and a count
// held by a dead process is wrong for ever. So the heads themselves are the state, and the counts
// are their differences:
//
//   full blocks    released - (c + 1), where released = max(0, w - L): after a fault in w the
//                  producer never touches blocks below
//   empty blocks   c + N + L - w: the producer may have block x when x <= c + N + L
//
// The live blocks, from min(c - M, w - L) to w, are then at most N + L + M + 1. Block x always has
// slot x mod (N + L + M + 1): the slot's old block lies behind both windows, so nobody may touch it
// any more. Nothing is ever put into a queue, so nothing can be lost, counted twice or taken in a
// wrong order, whatever the sides skip, and whenever a process dies.
//
// States of a block (BlockState). A producer's fault leads down, the consumer's to the right:
//
//   nowhere, or anywhere as the slot's older block
//      |             the producer skipped it: zeros
//      +-------------------------------------------------------+
//      v                                                       v
//   producer ----- released, the consumer faults there ---> consumer ---> nowhere, or the slot's
//      |                                                       ^          next block
//      +---> guarded (GuardStream: released, not yet read) ----+
//
// States of a side (Phase):
//
//   active ---- finish(n), the producer alone ---------------------------> finished
//      +------- fail(), cancel(), the death of its process --> failing --> failed
//
// While a side is `failing` its reason is being written, and the other side still takes it for
// active.
//
// Waiting. Both sides first announce where they are, then wait:
//
//   producer in x   w = max(w, x), which releases the blocks below x - L; waits until
//                   x <= c + N + L
//   consumer in y   c = max(c, y), which makes room up to y + N + L; waits until y < released
//
// So never both wait for each other: if y >= released >= w - L, then w <= y + L <= c + N + L, and
// the producer may go on. (A thread that is both sides could wait for itself: it must not, and with
// one address, with which a producer becomes the other side by a mere load, that is an error.
// guard_stream.cc says how far GuardStream's y has to be.) A third wait is short: for the thread
// that is moving the slot's block, which holds no lock and waits for nothing.
//
// The end. finish(n) releases everything up to n; fail() of the producer releases nothing more.
// Both wake the consumer, for which blocks past the end are then errors, or zeros. When the
// consumer gives up, the producer no longer waits: with ErrorPolicy::zeros it reuses the slots in
// turn. It can then take blocks from the consumer's window, which is why a side that gives up or
// finishes must no longer use its pointer.
//
// Breaches of the rules are a store below w - L and a load below c - M. They are detected because
// they fault: a block that a side must no longer touch is taken away before the other side learns
// of it (retire()). Without Options::strict it is taken away when the other side takes the block,
// or later, and an access until then goes unnoticed. A large copy by the C library is such a breach
// if it stores its first bytes last, or goes backward.
//
// If a producer breaks a limit under ErrorPolicy::zeros, it fails in its own fault, and its further
// stores go to fresh memory at its address, which nobody reads.
//
// Memory order. The bytes of a block are stored before `released` is (release), and the consumer
// loads `released` (acquire) before it loads them; the way back goes by the consumer's head in the
// same manner. A phase is stored after the data that it vouches for: a side that sees `finished`
// also sees the final `released` and `end_bytes`, one that sees `failed` also sees the reason.
// Between threads mutex_ would do; between processes there is no lock that both take, for a dead
// process would keep it.
//
// Costs: one signal, an uncontended lock twice, and the mechanism's work; between processes also an
// atomic addition, which wakes a waiting side. Fault path: allocates nothing, and the only lock it
// takes is mutex_, under which no user code runs and nothing faults.

#include "memory/stream/two_sided.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "base/bits.h"

namespace penstock::stream {

namespace {

// Returns a number that no other thread of this process has or had.
uint64_t this_thread() noexcept {
  static constinit std::atomic<uint64_t> last = 0;
  [[gnu::tls_model("initial-exec")]] static constinit thread_local uint64_t mine = 0;
  if (mine == 0) mine = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return mine;
}

}  // namespace

TwoSidedCore::TwoSidedCore(const Rules& rules)
    : rules_(rules),
      block_bytes_(rules.geometry.block_bytes),
      ahead_(rules.geometry.read_ahead_blocks),
      comeback_{rules.geometry.producer_comeback_blocks, rules.geometry.consumer_comeback_blocks},
      blocks_max_(rules.geometry.blocks()),
      own_(rules.shared == nullptr ? std::make_unique<Sides>() : nullptr),
      sides_(own_ != nullptr ? *own_ : *rules.shared),
      slots_(rules.geometry.live_blocks()) {}

Status TwoSidedCore::watch(Side side) {
  const os::Reservation& range = range_of(side);
  auto registration = fault::Registration::add(range.begin(), range.bytes(), *this);
  if (!registration) return std::unexpected(registration.error());
  registrations_[index_of(side)] = std::move(*registration);
  return {};
}

void TwoSidedCore::stop_watching() {
  for (fault::Registration& registration : registrations_) registration = {};
}

// ---- serving a side that needs a block

// Fault path.
fault::Outcome TwoSidedCore::on_fault(const fault::Fault& fault) noexcept {
  // Without a context the thread that waits in the kernel retries by itself.
  return serve(fault) || fault.context != nullptr ? fault::Outcome::retry : fault::Outcome::decline;
}

bool TwoSidedCore::serve(const fault::Fault& fault) noexcept {
  WrittenFailure failure;
  {
    MutexLock lock(mutex_);
    const Side side = side_of(fault);
    const Position position = position_of(side, fault.address);
    // A consumer's first load follows reader(), which waits for the first block.
    const bool unannounced = rules_.one_address && fault.access == fault::Access::read &&
                             released() == 0 && phase(Side::producer) == Phase::active;
    const Verdict verdict = unannounced ? Verdict::unannounced : serve(side, position);
    if (verdict == Verdict::present) return true;
    if (fault.context == nullptr) return false;
    failure = refusal_of(verdict, side, position);
    if (may_discard(verdict, side) && discard(side, position, failure)) return true;
  }
  give_up(failure, fault.context);
  return false;
}

// Returns the side that must have made this access. With one address the block's state tells, as
// far as it can: see guard_stream.cc.
Side TwoSidedCore::side_of(const fault::Fault& fault) const noexcept {
  if (!rules_.one_address) return side_of_range(fault.address);
  if (fault.access == fault::Access::read) return Side::consumer;
  const Position position = position_of(Side::consumer, fault.address);
  const bool consumers =
      !rules_.strict && position < released() &&
      position >= head_[index_of(Side::consumer)] - comeback_of(Side::consumer) &&
      came_[index_of(Side::producer)] != this_thread();
  return consumers ? Side::consumer : Side::producer;
}

// Waits for the block and makes it appear: returns `present`, or why it cannot.
Verdict TwoSidedCore::serve(Side side, Position position) noexcept {
  Slot& slot = slot_of(position);
  if (waits_for_itself(slot, side, position)) return Verdict::own_wait;
  if (rules_.one_address) {
    came_[index_of(side)] = this_thread();
    if (side == Side::producer) last_producer_ = this_thread();
  }
  int error = come_to(side, position);
  Verdict verdict = Verdict::unmapped;
  while (error == 0) {
    const uint32_t seen = sides_.changes.now();
    verdict = judge(slot, side, position);
    if (verdict != Verdict::wait) break;
    wait(seen);
  }
  if (verdict == Verdict::take || verdict == Verdict::take_cleared) {
    error = show(slot, side, position, verdict == Verdict::take_cleared);
    if (error == 0) {
      slot.position = position;
      slot.state = state_of(side);
      // Another thread of the side moved on meanwhile.
      if (position < retired_[index_of(side)] && (error = hide(slot)) == 0)
        slot.state = BlockState::nowhere;
    }
    verdict = error == 0 ? Verdict::present : Verdict::unmapped;
  }
  if (error != 0) map_errno_ = error;
  free_left_behind(side);
  return verdict;
}

// Whether the thread would wait for itself. With one address it may be both sides as long as
// neither has to wait for the other.
bool TwoSidedCore::waits_for_itself(Slot& slot, Side side, Position position) noexcept {
  return rules_.one_address && came_[index_of(other(side))] == this_thread() &&
         judge(slot, side, position) == Verdict::wait;
}

void TwoSidedCore::become_consumer() noexcept {
  came_[index_of(Side::consumer)] = this_thread();
  no_longer(Side::producer);
}

void TwoSidedCore::come_as_producer() noexcept {
  if (last_producer_ != this_thread()) no_longer(Side::consumer);
}

void TwoSidedCore::no_longer(Side side) noexcept {
  if (came_[index_of(side)] == this_thread()) came_[index_of(side)] = 0;
}

// Announces where a side is, before it waits: a producer blocked in x has still completed the
// blocks below x - L. Returns 0 or an errno; then nothing was announced.
int TwoSidedCore::come_to(Side side, Position position) noexcept {
  // A producer cannot get past the capacity.
  if (side == Side::producer && position >= blocks_max_) return 0;
  if (phase(side) != Phase::active) return 0;
  const size_t index = index_of(side);
  const Position kept = std::max(position, head_[index]) - comeback_[index];
  if (const int error = leave(side, kept, std::max(released(), kept))) return error;
  if (position <= head_[index] || phase(side) != Phase::active) return 0;
  if (side == Side::producer)
    sides_.released.store(std::max(released(), kept), std::memory_order_release);
  jump_[index].note(head_[index], position);
  head_[index] = position;
  sides_.head[index].store(position, std::memory_order_release);
  announce_change();
  return 0;
}

// Retires blocks below `kept`, if necessary, before the other side learns of it.
int TwoSidedCore::leave(Side side, Position kept, Position complete) noexcept {
  return rules_.strict || rules_.one_address ? retire(side, kept, complete) : 0;
}

int TwoSidedCore::retire(Side side, Position kept, Position) noexcept {
  const Position begin = retired_[index_of(side)];
  const Position end = std::min(kept, begin + static_cast<Position>(slots_.size()));
  // hide() may give up the lock, and another thread of the side may show a block behind this scan
  // meanwhile. A scan that hides nothing keeps the lock; movers see the new limit.
  for (bool hidden = true; hidden;) {
    hidden = false;
    for (Position position = begin; position < end; ++position) {
      Slot& slot = slot_of(position);
      if (slot.position != position || slot.state != state_of(side) || slot.moving) continue;
      if (const int error = hide(slot)) return error;
      slot.state = BlockState::nowhere;
      hidden = true;
    }
  }
  retired_[index_of(side)] = std::max(retired_[index_of(side)], kept);
  return 0;
}

Verdict TwoSidedCore::judge(Slot& slot, Side side, Position position) noexcept {
  if (slot.moving) {
    slot.awaited = true;
    return Verdict::wait;
  }
  if (slot.position == position && slot.state == state_of(side)) return Verdict::present;
  if (phase(side) != Phase::active) return Verdict::side_ended;
  return side == Side::producer ? judge_producer(position) : judge_consumer(position);
}

Verdict TwoSidedCore::judge_producer(Position position) const noexcept {
  if (position >= blocks_max_) return Verdict::past_capacity;
  if (position < head_[index_of(Side::producer)] - comeback_of(Side::producer))
    return Verdict::behind_window;
  if (phase(Side::consumer) == Phase::failed)
    return rules_.policy == ErrorPolicy::zeros ? Verdict::take : Verdict::other_failed;
  // The head as the other side stored it, clamped in case it makes no sense.
  const Position consumer = std::clamp<Position>(
      sides_.head[index_of(Side::consumer)].load(std::memory_order_acquire), -1, blocks_max_);
  return position <= consumer + ahead_ + comeback_of(Side::producer) ? Verdict::take
                                                                     : Verdict::wait;
}

Verdict TwoSidedCore::judge_consumer(Position position) const noexcept {
  if (position < head_[index_of(Side::consumer)] - comeback_of(Side::consumer))
    return Verdict::behind_window;
  // The phase first: a side that sees the end also sees what was released before it.
  const Phase producer = phase(Side::producer);
  if (position < readable_end(producer)) return Verdict::take;
  const bool zeros = rules_.policy == ErrorPolicy::zeros;
  switch (producer) {
    case Phase::active:
    case Phase::failing:
      return Verdict::wait;
    case Phase::failed:
      return zeros ? Verdict::take_cleared : Verdict::other_failed;
    case Phase::finished:
      break;
  }
  return zeros || position == released() ? Verdict::take_cleared : Verdict::past_end;
}

// Returns the end of the blocks that the consumer may read. With one address a guard has to follow.
Position TwoSidedCore::readable_end(Phase producer) const noexcept {
  const bool guarded = producer == Phase::active || producer == Phase::failing;
  return released() - (rules_.one_address && guarded ? 1 : 0);
}

Position TwoSidedCore::kept_by(Side side) const noexcept {
  if (phase(side) != Phase::active) return behind_all();
  return std::max(Position{0}, head_[index_of(side)] - comeback_of(side));
}

// Frees page tables of completed pieces of a range that nobody will touch any more: no slot is in
// them, and the side is past them.
void TwoSidedCore::free_left_behind(Side side) noexcept {
  const bool both = rules_.one_address;
  pool::PassedPageTables& passed = passed_[both ? 0 : index_of(side)];
  std::byte* const begin = address(side, 0);
  Position lowest = both ? std::min(kept_by(side), kept_by(other(side))) : kept_by(side);
  if (!passed.reaches(begin, address(side, lowest))) return;
  for (const Slot& slot : slots_) {
    if (both ? slot.state != BlockState::nowhere : slot.state == state_of(side))
      lowest = std::min(lowest, slot.position);
  }
  const std::span<std::byte> tables = passed.pass(begin, address(side, lowest));
  if (tables.empty()) return;
  mutex_.unlock();
  free_page_tables(tables);
  mutex_.lock();
}

void TwoSidedCore::wait(uint32_t seen) noexcept {
  if (own_ != nullptr) return sides_.changes.wait(mutex_);
  mutex_.unlock();
  wait_for_process(seen);
  mutex_.lock();
}
void TwoSidedCore::announce_change() noexcept {
  own_ != nullptr ? sides_.changes.announce() : sides_.changes.announce_shared();
}

// ---- accesses that cannot be served

// Whether the side may go on with its stores dropped. With one address the consumer would see them.
bool TwoSidedCore::may_discard(Verdict verdict, Side side) const noexcept {
  if (rules_.policy != ErrorPolicy::zeros || rules_.one_address) return false;
  if (verdict == Verdict::unmapped || discards_[index_of(side)]) return true;
  // A load that breaks a limit never reads as zeros.
  return side == Side::producer &&
         (verdict == Verdict::behind_window || verdict == Verdict::past_capacity);
}

// Lets the side fail, unless it has, and maps memory that nobody reads. False if there is none.
bool TwoSidedCore::discard(Side side, Position position, const Failure& failure) noexcept {
  Phase active = Phase::active;
  if (sides_.phase[index_of(side)].compare_exchange_strong(
          active, Phase::failing, std::memory_order_release, std::memory_order_relaxed)) {
    char reason[sizeof Sides::Reason::text];
    std::snprintf(reason, sizeof reason, "%s: cannot %s", failure.subject, failure.attempted);
    // First, because leave() may give up the lock, and other threads of the side fault meanwhile.
    discards_[index_of(side)] = true;
    if (side == Side::producer) (void)leave(Side::producer, behind_all(), released());
    write_failure(side, failure.code, reason);
  }
  if (!discards_[index_of(side)]) return false;
  const auto give_back = [&](Position at) { return os::decommit(address(side, at), block_bytes_); };
  // Pages that are only read are all the system's one page of zeros.
  const bool stores = side == Side::producer;
  if (stores && discarded_blocks_[0] != position && discarded_blocks_[1] != position) {
    if (discarded_blocks_[0] >= 0 && give_back(discarded_blocks_[0]) != 0) return false;
    discarded_blocks_ = {discarded_blocks_[1], position};
  }
  return give_back(position) == 0 &&
         os::protect(address(side, position), block_bytes_,
                     stores ? Protection::read_write : Protection::read) == 0;
}

void TwoSidedCore::write_failure(Side side, ErrorCode code, const char* reason) noexcept {
  Sides::Reason& shared = sides_.reason[index_of(side)];
  shared.code = static_cast<uint32_t>(code);
  std::snprintf(shared.text, sizeof shared.text, "%s", reason);
  sides_.phase[index_of(side)].store(Phase::failed, std::memory_order_release);
  announce_change();
}

ErrorCode TwoSidedCore::read_failure(Side side, char (&reason)[256]) const noexcept {
  const Sides::Reason& shared = sides_.reason[index_of(side)];
  std::memcpy(reason, shared.text, sizeof reason);
  reason[sizeof reason - 1] = 0;
  const uint32_t code = shared.code;
  return code <= static_cast<uint32_t>(ErrorCode::unsorted) ? static_cast<ErrorCode>(code)
                                                            : ErrorCode::cancelled;
}

WrittenFailure TwoSidedCore::refusal_of(Verdict verdict, Side side,
                                        Position position) const noexcept {
  char reason[sizeof Sides::Reason::text];
  const ErrorCode code = read_failure(other(side), reason);
  return written({.verdict = verdict,
                  .side = side,
                  .position = position,
                  .head = head_[index_of(side)],
                  .comeback = comeback_of(side),
                  .comeback_option = comeback_option_of(side),
                  .jump = jump_[index_of(side)],
                  .handed_over = rules_.one_address && rules_.strict && side == Side::producer &&
                                 position < released() && position >= kept_by(Side::consumer),
                  .capacity_bytes = rules_.geometry.bytes,
                  .end_bytes = sides_.end_bytes.load(std::memory_order_relaxed),
                  .map_errno = map_errno_,
                  .other_reason = reason,
                  .other_code = code},
                 rules_.name.c_str());
}

Error TwoSidedCore::error_of(Verdict verdict, Side side, Position position) const {
  const std::optional<Error>& others = error_[index_of(other(side))];
  if (verdict == Verdict::other_failed && others) return *others;
  return refusal_of(verdict, side, position).error();
}

// ---- calls of the two sides

Status TwoSidedCore::prepare(Side side, const void* address, size_t bytes) {
  if (auto owned = check_owned("prepare memory"); !owned) return std::unexpected(owned.error());
  if (bytes == 0) return {};
  auto blocks = window_of(side).blocks(address, bytes, rules_.name);
  if (!blocks) return std::unexpected(std::move(blocks.error()));
  MutexLock lock(mutex_);
  for (const Position position : blocks->each()) {
    const Verdict verdict = serve(side, position);
    if (verdict == Verdict::side_ended && discards_[index_of(side)])
      return std::unexpected(failure_while_discarding(side));
    if (verdict != Verdict::present) return std::unexpected(error_of(verdict, side, position));
  }
  return {};
}

Result<size_t> TwoSidedCore::prepare_window(Side side, std::byte* address, size_t bytes) {
  const size_t fits = window_of(side).fitting(address, bytes);
  if (auto prepared = prepare(side, address, fits); !prepared)
    return std::unexpected(std::move(prepared.error()));
  return fits;
}

Result<size_t> TwoSidedCore::prepare(std::byte* address, size_t bytes, fault::Access) {
  return prepare_window(side_of_range(address), address, bytes);
}

Status TwoSidedCore::finish(uint64_t bytes) {
  if (auto owned = check_owned("finish"); !owned) return std::unexpected(owned.error());
  auto refuse = [&](std::string hint) {
    return failure(ErrorCode::invalid_argument, fmt::format("finish at {} bytes", bytes),
                   rules_.name, std::move(hint));
  };
  MutexLock lock(mutex_);
  if (discards_[index_of(Side::producer)])
    return std::unexpected(failure_while_discarding(Side::producer));
  if (phase(Side::producer) != Phase::active) return refuse("finish once, and not after fail()");
  const uint64_t handed_over = static_cast<uint64_t>(released()) * block_bytes_;
  if (bytes > rules_.geometry.bytes || bytes < handed_over) {
    return refuse(fmt::format("{} bytes are with the consumer, {} is the capacity", handed_over,
                              rules_.geometry.bytes));
  }
  const auto last = static_cast<Position>(bytes / block_bytes_);
  const size_t used = bytes % block_bytes_;
  // A thread that serves a fault of the producer may not yet have noted that the block is mapped.
  Slot& slot = slot_of(last);
  while (slot.moving) {
    slot.awaited = true;
    wait(sides_.changes.now());
  }
  // The block with the end may have other bytes behind it.
  if (used != 0 && slot.position == last && slot.state == BlockState::producer)
    std::memset(address(Side::producer, last) + used, 0, block_bytes_ - used);
  // If the system refuses, a breach is detected later, or not at all; nothing else suffers.
  const auto end = static_cast<Position>(ceil_div(bytes, block_bytes_));
  (void)leave(Side::producer, behind_all(), end);
  sides_.end_bytes.store(bytes, std::memory_order_relaxed);
  sides_.released.store(end, std::memory_order_release);
  // The other process may have declared this one dead.
  Phase active = Phase::active;
  if (!sides_.phase[index_of(Side::producer)].compare_exchange_strong(active, Phase::finished))
    return refuse("finish once, and not after fail()");
  announce_change();
  if (phase(Side::consumer) == Phase::failed)
    return std::unexpected(error_of(Verdict::other_failed, Side::producer, last));
  return {};
}

Result<uint64_t> TwoSidedCore::wait_ready(uint64_t offset) {
  if (auto owned = check_owned("wait for data"); !owned) return std::unexpected(owned.error());
  // Beyond the capacity nothing comes but the end.
  const auto position = static_cast<Position>(
      std::min<uint64_t>(offset / block_bytes_, static_cast<uint64_t>(blocks_max_)));
  MutexLock lock(mutex_);
  if ((map_errno_ = come_to(Side::consumer, position)) != 0)
    return std::unexpected(error_of(Verdict::unmapped, Side::consumer, position));
  for (;;) {
    const uint32_t seen = sides_.changes.now();
    const Phase producer = phase(Side::producer);
    if (producer == Phase::finished) return sides_.end_bytes.load(std::memory_order_relaxed);
    const Position end = readable_end(producer);
    if (position < end) return static_cast<uint64_t>(end) * block_bytes_;
    if (producer == Phase::failed)
      return std::unexpected(error_of(Verdict::other_failed, Side::consumer, position));
    if (phase(Side::consumer) != Phase::active)
      return std::unexpected(error_of(Verdict::side_ended, Side::consumer, position));
    wait(seen);
  }
}

void TwoSidedCore::fail(Side side, Error error) {
  const std::string reason = error.message();
  const ErrorCode code = error.code;
  fail(side, code, reason.c_str(), std::move(error));
}

void TwoSidedCore::cancel(Side side, const char* attempted) noexcept {
  try {
    fail(side, Error{ErrorCode::cancelled, attempted});
  } catch (const std::bad_alloc&) {
    fail(side, ErrorCode::cancelled, "cannot go on", std::nullopt);
  }
}

void TwoSidedCore::fail(Side side, ErrorCode code, const char* reason,
                        std::optional<Error> error) noexcept {
  if (is_inherited()) return;
  MutexLock lock(mutex_);
  Phase active = Phase::active;
  // release: a process that sees `failing` also sees the identity
  // (ProcessStreamCore::notice_death()).
  if (!sides_.phase[index_of(side)].compare_exchange_strong(
          active, Phase::failing, std::memory_order_release, std::memory_order_relaxed))
    return;
  (void)leave(side, behind_all(), released());
  error_[index_of(side)] = std::move(error);
  write_failure(side, code, reason);
}

Error TwoSidedCore::failure_of(Side side) const {
  if (const auto& error = error_[index_of(side)]) return *error;
  char reason[sizeof Sides::Reason::text];
  const ErrorCode code = read_failure(side, reason);
  return Error{code, fmt::format("go on: the {} gave up: {}", name_of(side), reason), rules_.name};
}

// Waits until the reason is written, and returns it. REQUIRES: the side's discards_.
Error TwoSidedCore::failure_while_discarding(Side side) {
  while (phase(side) == Phase::failing) wait(sides_.changes.now());
  return failure_of(side);
}

Status TwoSidedCore::status() const {
  if (auto owned = check_owned("know the state"); !owned) return std::unexpected(owned.error());
  MutexLock lock(mutex_);
  for (const Side side : {Side::producer, Side::consumer}) {
    if (error_[index_of(side)] || phase(side) == Phase::failed)
      return std::unexpected(failure_of(side));
  }
  return {};
}

}  // namespace penstock::stream

// ---- the public class

namespace penstock {

Status TwoSidedStream::prepare_write(const void* address, size_t bytes) {
  return core_->prepare(Side::producer, address, bytes);
}
Status TwoSidedStream::prepare_read(const void* address, size_t bytes) {
  return core_->prepare(Side::consumer, address, bytes);
}
Status TwoSidedStream::finish(uint64_t bytes) {
  return core_->finish(bytes);
}
Result<uint64_t> TwoSidedStream::wait_ready(uint64_t offset) {
  return core_->wait_ready(offset);
}
void TwoSidedStream::fail(Side side, Error error) {
  core_->fail(side, std::move(error));
}
void TwoSidedStream::cancel(Side side) {
  core_->cancel(side, "go on: the other side cancelled");
}
Status TwoSidedStream::status() const {
  return core_->status();
}
uint64_t TwoSidedStream::memory_bytes() const {
  return core_->memory_bytes();
}
std::byte* TwoSidedStream::writer_address() const {
  return fault::for_this_thread(core_->writer());
}
std::byte* TwoSidedStream::reader_address() const {
  return fault::for_this_thread(core_->reader());
}

}  // namespace penstock
