#include "stream/guard_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <utility>

#include "base/bits.h"
#include "base/check.h"
#include "stream/recovery.h"

// How two threads share one address, and never more than N + L + M + 1 blocks of memory.
//
// The naive way is one long mapping: the writer's first touch of a page tells where the writer is,
// but nothing tells where the reader is, so nobody knows when to stop the writer, when to stop the
// reader, or what can be given back. Vortex-B (section 4.2) trips the reader up on guards: a block
// that the writer has completed is made inaccessible, contents and all, and the reader's fault on
// it says where the reader is.
//
// States of block x. "Memory" is fresh zero pages on the way in, given back on the way out:
//
//            store by the                 the producer comes            load (or store)
//            producer                     to x + L + 1                  by the consumer
//   absent --------------> producing --------------------> guarded ----------------------> consuming
//     ^  PROT_NONE          read, write    PROT_NONE, with contents      read, write          |
//     |                                                                  (strict: read)       |
//     +---------------------------------------------------------------------------------------+
//            the consumer comes to x + M + 1 (from guarded, too: it jumped over x)
//
// A block that the producer skipped goes from absent to consuming: it reads as zeros, as fresh
// memory does.
//
// Algorithm 7 counts full and empty blocks with two semaphores. Counts cannot say where a block is
// when a producer faults out of order or a consumer jumps, so here, as in RemapStream, the two
// heads are the state (w: the last block the producer stored to, c: the last that the consumer
// came to; -1 before the first), and the counts are their differences:
//
//   semEmpty = c + N + L - w      N + L at first; the producer gets block x while x <= c + N + L
//   semFull  = released - (c + 2) where released = max(0, w - L): after a store in w the producer
//                                 never touches blocks below, and guards stand there; 0 at first,
//                                 less 1 for the wait in reader()
//
// The 2. In a queue the consumer would take block c when c is full. Here it is already inside when
// it comes to the next block, and only a guard can stop it there. So it is let into c when c + 1 is
// guarded as well: the consumer's wait in Algorithm 7 comes after its guard, for the guard of the
// next block. That is also the start condition: the wait in reader(), for the guard of block 0,
// before the consumer touches anything. (A block that does not exist yet would stop it just as
// well, but between "does not exist" and "is guarded" the block is open, and nobody sees the
// consumer walk in.)
//
// Who blocks whom. Both first announce where they are, then wait:
//   producer in x:  w = max(w, x), guards blocks below x - L; waits until x <= c + N + L.
//   consumer in y:  c = max(c, y), gives back blocks below y - M; waits until y + 1 < released.
// Never both for each other, given N >= 1: if the producer waits, x > c + N + L, so released >= x -
// L >= c + N + 1 >= c + 2, and the consumer may go on. At N = 0 they would wait for each other,
// which is why open() refuses it. (The paper asks for N + L >= 1; with N = 0 and L = 1 its
// semaphores stop before the first guard.) A thread that is both sides can wait for itself. It does
// not while its last load is at least L + 2 blocks and at most N + L - 1 behind its last store.
//
// Memory. Live are blocks from min(c - M, w - L) to w <= c + N + L: at most N + L + M + 1, block x
// in slot x mod (N + L + M + 1). Whoever faults gives back what its announcement has made dead,
// before the other side hears of it. Before the first load there are N + L blocks.
//
// Which side faulted? One address, so the access and the state of the block must tell: a load is
// the consumer's; a store to a block that is not released is the producer's; a store to a released
// block is the consumer's, who may change what it reads (strict: it may not, and the store is a
// producer that came back too far); a store behind the consumer's window is the producer's.
// Breaches and what finds them:
//   load below c - M                       always: the block was given back at once
//   store below w - L, block given back    always
//   store below w - L, block guarded       strict; otherwise taken for the consumer's. Most such
//                                          stores then push c ahead of the consumer, whose next
//                                          load ends with a message
//   store below w - L, block consuming     strict, in which such a block is read-only; otherwise
//                                          unnoticed, a race with the consumer
//   load in [released, w], by a jump       never: the block must be open for the producer. (A
//                                          consumer that goes block by block cannot get there)
//   load by the producer before a store    never: it waits as a consumer would, for itself
//
// The guard. The paper guards a block's first page. Two reasons to guard all of it. A consumer that
// jumps into the middle of a block would pass by a guard on its first page; this way it trips, and
// what it jumped over is given back. And one 4 KiB page of a huge page cannot be protected: the
// kernel splits it. Measured over 64 blocks, each committed, filled, guarded, opened, read and
// given back; microseconds, medians; first with one thread, then with the other core computing in
// the same process:
//
//                        guard one page   guard all    lift one page   lift all   give back
//   1 MiB, 4 KiB pages      3.5   14       19   30        2.4           19         55    67
//   2 MiB, 4 KiB pages      4.3   16       35   47        2.4           36        106   121
//   2 MiB, huge page       14     32        3.7 14        2.5            2.2       10    20
//   4 MiB, huge pages      14     33        3.7 14        2.4            2.3       14    25
//   16 MiB, huge pages     16     36        6.0 17        2.8            3.5       45    52
//
// So on huge pages, which any block of 2 MiB or more uses, the whole block is the cheaper guard by
// far; on small pages it costs some 36 us a MiB, against 455 us for filling that MiB of fresh
// pages. The commit itself is 2 us; clearing pages when they are first touched is what Vortex-B
// really pays (0.46 ms a MiB in small pages, 0.03 ms in huge ones, filling included).
//
// Faults come as SIGSEGV, and only so: a guard is a protection, and userfaultfd can protect
// against stores, not against loads.
//
// The system calls stand under mutex_. They take the kernel's one lock of the address space anyway,
// so the sides would not overlap without it either; what takes long, clearing pages, happens in the
// user's own stores, without it.
//
// Address space: committed, guarded and open stretches are separate mappings, at most two per live
// block, whatever the length, far from vm.max_map_count. Under vm.overcommit_memory=2 only the live
// blocks are charged, because giving back replaces the mapping. A forked child has none of the
// range ahead, and no registration.
//
// The end. finish(n) releases and guards everything up to n and gives back what lies behind, fail()
// of the producer releases nothing more and gives back its incomplete blocks; after both a guard
// more or nothing at all follows the last complete block, so the consumer's wait becomes y <
// released. When the consumer gives up, c is taken as infinite: with ErrorPolicy::zeros what the
// producer completes is given back at once.
//
// Memory order. What the producer stored in a block is read by the consumer after: stores, mutex_
// (announcing x > block + L), mutex_ (seeing it), loads.
//
// Fault path: allocates nothing, keeps errno, and the only lock it takes is mutex_, under which no
// user code runs and nothing faults.

namespace penstock::stream {

namespace {

Status check(const GuardStream::Options& options) {
  if (auto valid = Shape::of(options).check(options.name); !valid) return valid;
  if (options.read_ahead_blocks != 0) return {};
  return failure(ErrorCode::invalid_argument, "open a stream", options.name,
                 "read_ahead_blocks: at least 1, the block that guards the one being read");
}

}  // namespace

// ---- opening

// A short stream never has more live blocks than it has blocks, and the zeros behind the last.
GuardStreamCore::GuardStreamCore(const Options& options)
    : options_(options),
      block_bytes_(options.block_bytes),
      ahead_(options.read_ahead_blocks),
      producer_comeback_(options.producer_comeback_blocks),
      consumer_comeback_(options.consumer_comeback_blocks),
      blocks_max_(Shape::of(options).blocks()),
      slots_(Shape::of(options).live_blocks()) {}

Result<std::unique_ptr<GuardStreamCore>> GuardStreamCore::open(const Options& options) {
  if (auto valid = check(options); !valid) return std::unexpected(valid.error());
  std::unique_ptr<GuardStreamCore> core(new GuardStreamCore(options));

  auto range =
      os::Reservation::reserve(static_cast<uint64_t>(core->blocks_max_ + 1) * options.block_bytes);
  if (!range) return std::unexpected(range.error());
  core->range_ = std::move(*range);
  // Small blocks stay clear of huge pages: one would span several blocks, and a guard would split
  // it. A kernel without huge pages refuses, and has none to avoid either.
  (void)os::advise_huge(core->range_.begin(), core->range_.bytes(),
                        options.block_bytes >= os::huge_page_bytes);
  if (int error = os::exclude_from_fork(core->range_.begin(), core->range_.bytes()); error != 0) {
    return system_error(error, "keep a stream from forked processes", options.name);
  }
  auto registration = fault::Registration::add(core->range_.begin(), core->range_.bytes(), *core);
  if (!registration) return std::unexpected(registration.error());
  core->registration_ = std::move(*registration);
  return core;
}

// ---- serving a side that needs a block

// Fault path.
fault::Outcome GuardStreamCore::on_fault(const fault::Fault& fault) noexcept {
  const auto position =
      static_cast<Position>(static_cast<size_t>(fault.address - range_.begin()) / block_bytes_);
  char text[400];
  ErrorCode code;
  {
    MutexLock lock(mutex_);
    const Side side = side_of(position, fault.access);
    const Verdict verdict = serve(side, position);
    if (verdict == Verdict::present) return fault::Outcome::retry;
    code = write_reason(text, sizeof text, verdict, side, position);
  }
  // Ends the process, or sends the interrupted code to its recovery point. (What zeros can mend has
  // been served.)
  const ErrorPolicy policy =
      options_.policy == ErrorPolicy::recover ? ErrorPolicy::recover : ErrorPolicy::stop;
  [[maybe_unused]] bool recovered = stream::fail(
      policy, Failure{.code = code, .attempted = text, .subject = options_.name.c_str()},
      fault.context);
  return fault::Outcome::retry;
}

// Who must have made this access, as far as one address lets us know: see the table above.
Side GuardStreamCore::side_of(Position position, fault::Access access) const noexcept {
  if (access == fault::Access::read) return Side::consumer;
  const bool consumers =
      !options_.strict && position < released_ && position >= reader_head_ - consumer_comeback_;
  return consumers ? Side::consumer : Side::producer;
}

// Waits for the block and opens it: `present`, or why that cannot be. Algorithm 7's handler.
Verdict GuardStreamCore::serve(Side side, Position position) noexcept {
  if ((map_errno_ = announce(side, position)) != 0) return Verdict::unmapped;
  Verdict verdict;
  while ((verdict = side == Side::producer ? judge_writer(position) : judge_reader(position)) ==
         Verdict::wait) {
    changes_.wait(mutex_);
  }
  if (verdict != Verdict::take) return verdict;
  map_errno_ = admit(side, position);
  return map_errno_ == 0 ? Verdict::present : Verdict::unmapped;
}

// Tells where a side is, before it waits: a producer blocked in x has still completed the blocks
// below x - L, a consumer blocked in y has left those below y - M. 0 or an errno.
int GuardStreamCore::announce(Side side, Position position) noexcept {
  bool moved = false;
  if (!is(side, Phase::active)) {
    // It says no more.
  } else if (side == Side::producer && position > writer_head_ && position < blocks_max_) {
    const Position released = std::max(released_, position - producer_comeback_);
    if (int error = guard_until(released); error != 0) return error;
    writer_head_ = position;
    released_ = released;
    moved = true;
  } else if (side == Side::consumer && position > reader_head_) {
    reader_head_ = position;
    moved = true;
  }
  const int error = give_back_dead();
  if (moved) changes_.announce();
  return error;
}

Verdict GuardStreamCore::judge_writer(Position position) const noexcept {
  if (!is(Side::producer, Phase::active)) return Verdict::side_ended;
  if (position >= blocks_max_) return Verdict::past_capacity;
  if (position < released_) return Verdict::behind_window;
  if (state_of(position) == State::producing) return Verdict::present;
  if (is(Side::consumer, Phase::failed)) {
    return options_.policy == ErrorPolicy::zeros ? Verdict::take : Verdict::other_failed;
  }
  return position <= reader_head_ + ahead_ + producer_comeback_ ? Verdict::take : Verdict::wait;
}

Verdict GuardStreamCore::judge_reader(Position position) const noexcept {
  if (state_of(position) == State::consuming) return Verdict::present;
  if (!is(Side::consumer, Phase::active)) return Verdict::side_ended;
  if (position < reader_head_ - consumer_comeback_) return Verdict::behind_window;
  if (position < readable_end()) return Verdict::take;
  const bool zeros = options_.policy == ErrorPolicy::zeros;
  switch (phase_[index_of(Side::producer)]) {
    case Phase::active:
      return Verdict::wait;
    case Phase::failed:
      return zeros ? Verdict::take : Verdict::other_failed;
    case Phase::finished:
      break;
  }
  return zeros || position == released_ ? Verdict::take : Verdict::past_end;
}

GuardStreamCore::State GuardStreamCore::state_of(Position position) const noexcept {
  const Slot& slot = slots_[static_cast<size_t>(position) % slots_.size()];
  return slot.position == position ? slot.state : State::absent;
}

// The consumer may be in blocks below: those whose next block will trip it.
Position GuardStreamCore::readable_end() const noexcept {
  return is(Side::producer, Phase::active) ? released_ - 1 : released_;
}

// Nobody may touch blocks below: they are behind both windows, and a side that is done has none.
Position GuardStreamCore::dead_end() const noexcept {
  const Position behind_all = blocks_max_ + 1;
  const Position producers = is(Side::producer, Phase::active) ? released_ : behind_all;
  const Position consumers = is(Side::consumer, Phase::active)
                                 ? std::max(Position{0}, reader_head_ - consumer_comeback_)
                                 : behind_all;
  return std::min(producers, consumers);
}

// ---- what happens to a block. All return 0 or an errno.

// To producing from absent; to consuming from guarded, or from absent where the producer wrote
// nothing.
int GuardStreamCore::admit(Side side, Position position) noexcept {
  Slot& slot = slot_of(position);
  PENSTOCK_CHECK(slot.position == position || slot.state == State::absent,
                 "two live blocks of a stream need one slot");
  const bool producing = side == Side::producer;
  const os::Access access =
      options_.strict && !producing ? os::Access::read : os::Access::read_write;
  if (int error = os::protect(address(position), block_bytes_, access); error != 0) return error;
  slot = {position, producing ? State::producing : State::consuming};
  return 0;
}

// To guarded from producing, for all that the producer has completed.
int GuardStreamCore::guard_until(Position end) noexcept {
  const Position last = std::min(end, released_ + static_cast<Position>(slots_.size()));
  for (Position position = released_; position < last; ++position) {
    if (state_of(position) != State::producing) continue;
    if (int error = os::protect(address(position), block_bytes_, os::Access::none); error != 0) {
      return error;
    }
    slot_of(position).state = State::guarded;
  }
  return 0;
}

// To absent from anything. REQUIRES: no live block in [begin, end) lies slots_.size() or more
// behind `begin`.
int GuardStreamCore::give_back(Position begin, Position end) noexcept {
  const Position last = std::min(end, begin + static_cast<Position>(slots_.size()));
  for (Position position = begin; position < last; ++position) {
    if (state_of(position) == State::absent) continue;
    if (int error = os::decommit(address(position), block_bytes_); error != 0) return error;
    slot_of(position).state = State::absent;
  }
  return 0;
}

int GuardStreamCore::give_back_dead() noexcept {
  const Position end = dead_end();
  if (int error = give_back(dead_, end); error != 0) return error;
  dead_ = end;
  const std::span<std::byte> tables = passed_.pass(range_.begin(), address(dead_));
  return tables.empty() ? 0 : os::decommit(tables.data(), tables.size());
}

// ---- what cannot be served

Error GuardStreamCore::error_of(Verdict verdict, Side side, Position position) const {
  if (verdict == Verdict::other_failed) return *error_[index_of(other(side))];
  char text[400];
  const ErrorCode code = write_reason(text, sizeof text, verdict, side, position);
  return Error{code, text, options_.name};
}

// May stand on the fault path: the text goes to the caller's stack.
ErrorCode GuardStreamCore::write_reason(char* text, size_t text_bytes, Verdict verdict, Side side,
                                        Position position) const noexcept {
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

// The start condition of Algorithm 8.
std::byte* GuardStreamCore::reader() {
  if (is_inherited()) return range_.begin();
  MutexLock lock(mutex_);
  while (is(Side::producer, Phase::active) && released_ == 0) changes_.wait(mutex_);
  return range_.begin();
}

Status GuardStreamCore::prepare(Side side, const void* address, size_t bytes) {
  if (auto owned = check_owned("prepare memory"); !owned) return std::unexpected(owned.error());
  if (bytes == 0) return {};
  auto blocks =
      BlockRange::of(address, bytes, range_, block_bytes_, side, comeback_of(side), options_.name);
  if (!blocks) return std::unexpected(std::move(blocks.error()));
  MutexLock lock(mutex_);
  for (Position position = blocks->first; position <= blocks->last; ++position) {
    const Verdict verdict = serve(side, position);
    if (verdict != Verdict::present) return std::unexpected(error_of(verdict, side, position));
  }
  return {};
}

Result<size_t> GuardStreamCore::prepare(std::byte* address, size_t bytes, fault::Access access) {
  const Side side = access == fault::Access::write ? Side::producer : Side::consumer;
  const size_t fits = bytes_in_window(address, bytes, range_, block_bytes_, comeback_of(side));
  if (auto prepared = prepare(side, address, fits); !prepared) {
    return std::unexpected(std::move(prepared.error()));
  }
  return fits;
}

Status GuardStreamCore::finish(uint64_t bytes) {
  if (auto owned = check_owned("finish"); !owned) return std::unexpected(owned.error());
  auto refuse = [&](std::string hint) {
    return failure(ErrorCode::invalid_argument, fmt::format("finish at {} bytes", bytes),
                   options_.name, std::move(hint));
  };
  MutexLock lock(mutex_);
  if (!is(Side::producer, Phase::active)) return refuse("finish once, and not after fail()");
  const uint64_t released_bytes = static_cast<uint64_t>(released_) * block_bytes_;
  if (bytes > options_.bytes || bytes < released_bytes) {
    return refuse(fmt::format("{} bytes are with the consumer, {} is the capacity", released_bytes,
                              options_.bytes));
  }
  // What was written behind the end in the block that holds it.
  const auto last = static_cast<Position>(bytes / block_bytes_);
  const size_t used = bytes % block_bytes_;
  if (used != 0 && state_of(last) == State::producing) {
    std::memset(address(last) + used, 0, block_bytes_ - used);
  }
  // Where the system refuses a guard or keeps memory, a breach may go unnoticed, nothing worse.
  const auto end = static_cast<Position>(ceil_div(bytes, block_bytes_));
  (void)guard_until(end);
  (void)give_back(end, blocks_max_);
  released_ = end;
  end_bytes_ = bytes;
  phase_[index_of(Side::producer)] = Phase::finished;
  (void)give_back_dead();
  changes_.announce();
  if (const auto& error = error_[index_of(Side::consumer)]) return std::unexpected(*error);
  return {};
}

Result<uint64_t> GuardStreamCore::wait_ready(uint64_t offset) {
  if (auto owned = check_owned("wait for data"); !owned) return std::unexpected(owned.error());
  const auto position = static_cast<Position>(offset / block_bytes_);
  MutexLock lock(mutex_);
  // What the system refuses to take back now is tried again by the next fault.
  (void)announce(Side::consumer, position);
  while (is(Side::producer, Phase::active) && is(Side::consumer, Phase::active) &&
         position >= readable_end()) {
    changes_.wait(mutex_);
  }
  if (is(Side::producer, Phase::finished)) return end_bytes_;
  if (position >= readable_end()) {
    if (is(Side::producer, Phase::failed))
      return std::unexpected(*error_[index_of(Side::producer)]);
    return std::unexpected(error_of(Verdict::side_ended, Side::consumer, position));
  }
  return static_cast<uint64_t>(readable_end()) * block_bytes_;
}

void GuardStreamCore::fail(Side side, Error error) {
  if (is_inherited()) return;
  std::string reason = error.message();
  MutexLock lock(mutex_);
  if (!is(side, Phase::active)) return;
  const size_t index = index_of(side);
  phase_[index] = Phase::failed;
  error_[index] = std::move(error);
  reason_[index] = std::move(reason);
  // What is incomplete must not be read. (Refused: as in finish().)
  if (side == Side::producer) (void)give_back(released_, blocks_max_);
  (void)give_back_dead();
  changes_.announce();
}

Status GuardStreamCore::status() const {
  if (auto owned = check_owned("know the state"); !owned) return std::unexpected(owned.error());
  MutexLock lock(mutex_);
  for (const std::optional<Error>& error : error_) {
    if (error) return std::unexpected(*error);
  }
  return {};
}

uint64_t GuardStreamCore::memory_bytes() const {
  if (is_inherited()) return 0;
  MutexLock lock(mutex_);
  const auto live = std::count_if(slots_.begin(), slots_.end(),
                                  [](const Slot& slot) { return slot.state != State::absent; });
  return static_cast<uint64_t>(live) * block_bytes_;
}

}  // namespace penstock::stream

// ---- the public class

namespace penstock {

GuardStream::GuardStream(std::unique_ptr<stream::GuardStreamCore> core) : core_(std::move(core)) {}
GuardStream::GuardStream(GuardStream&&) noexcept = default;
GuardStream& GuardStream::operator=(GuardStream&&) noexcept = default;
GuardStream::~GuardStream() = default;

Result<GuardStream> GuardStream::open(const Options& options) {
  auto core = stream::GuardStreamCore::open(options);
  if (!core) return std::unexpected(std::move(core.error()));
  return GuardStream(std::move(*core));
}

Status GuardStream::prepare_write(const void* address, size_t bytes) {
  return core_->prepare(Side::producer, address, bytes);
}
Status GuardStream::prepare_read(const void* address, size_t bytes) {
  return core_->prepare(Side::consumer, address, bytes);
}
Status GuardStream::finish(uint64_t bytes) {
  return core_->finish(bytes);
}
Result<uint64_t> GuardStream::wait_ready(uint64_t offset) {
  return core_->wait_ready(offset);
}
void GuardStream::fail(Side side, Error error) {
  core_->fail(side, std::move(error));
}
void GuardStream::cancel(Side side) {
  fail(side, Error{.code = ErrorCode::cancelled, .attempted = "go on: the other side cancelled"});
}
Status GuardStream::status() const {
  return core_->status();
}
uint64_t GuardStream::memory_bytes() const {
  return core_->memory_bytes();
}
std::byte* GuardStream::writer_address() const {
  return core_->writer();
}
std::byte* GuardStream::reader_address() const {
  return core_->reader();
}

}  // namespace penstock
