// How two threads share one address and at most N + L + M + 1 blocks of memory: the mechanism of
// GuardStream. (Heads, windows, waiting and the end: two_sided.cc.)
//
// In one long mapping, the writer's first touch of a page tells where the writer is, but nothing
// tells where the reader is, so nobody knows when to stop the writer, when to stop the reader, or
// what can be freed. Vortex-B (section 4.2) stops the reader with guards: a block that the
// writer has completed is made inaccessible, contents and all, and the reader's fault on it says
// where the reader is.
//
// States of block x. Memory is fresh zero pages on the way in, and is decommitted on the way out:
//
//            store by the                 the producer comes            load (or store)
//            producer                     to x + L + 1                  by the consumer
//   nowhere -------------> producer --------------------> guarded ----------------------> consumer
//     ^  PROT_NONE          read, write    PROT_NONE, with contents      read, write          |
//     |                                                                  (strict: read)       |
//     +---------------------------------------------------------------------------------------+
//            the consumer comes to x + M + 1 (from guarded, too: it jumped over x)
//
// A block that the producer skipped goes from nowhere to the consumer: it reads as zeros, as fresh
// memory does.
//
// One block more. In a queue the consumer would take block c when c is full. Here it walks from one
// block into the next by itself, and only a guard can stop it there. So it is let into c when c + 1
// is guarded as well: semFull of Algorithm 7 counts released - (c + 2), and the consumer's
// wait comes after its guard, for the guard of the next block. That is also the start condition:
// the wait in reader(), for the guard of block 0, before the consumer touches anything. (A block
// without memory would stop it as well, but then it is open until it is guarded, and nobody sees
// the consumer walk in.) When the producer has finished or failed, the last complete block is
// followed by one more guard or by nothing, and the wait becomes y < released.
//
// So a consumer in y waits until y + 1 < released. The sides still never both wait for each other,
// given N >= 1: if the producer waits, x > c + N + L, so released >= x - L >= c + N + 1 >= c + 2,
// and the consumer may go on. At N = 0 they would wait for each other, which is why open() refuses
// it. (The paper asks for N + L >= 1; with N = 0 and L = 1 its semaphores stop before the first
// guard.) A thread that is both sides does not wait for itself while its last load is at least L + 2
// blocks and at most N + L - 1 behind its last store.
//
// Memory. A fault decommits what its announcement makes dead, before the other side sees the
// announcement. Before the first load there are N + L blocks.
//
// Which side faulted? With one address, the access and the state of the block must tell: a load is
// the consumer's; a store to a block that is not released is the producer's; a store to a released
// block is a producer that came back too far. (Without `strict` the consumer may change what it
// reads, and the store is the consumer's, unless it lies behind the consumer's window or comes from
// the thread that last came as the producer.) A thread that would then wait for the side that it
// last came as, that is, for itself, gets an error instead; reader() makes a thread a consumer's,
// and writer() ends that. Breaches and what detects them:
//   load below c - M                       always: the block was decommitted at once
//   store below w - L, block decommitted   always
//   store below w - L, block guarded       strict, or the producer's last thread; otherwise taken
//                                          for the consumer's. Most such stores then push c ahead of
//                                          the consumer, whose next load ends with a message
//   store below w - L, block consumer's    strict, in which such a block is read-only; otherwise
//                                          unnoticed, a race with the consumer
//   load in [released, w], by a jump       never: the block must be open for the producer. (A
//                                          consumer that goes block by block cannot get there)
//   load by the producer before a store    always: before the first block is complete a consumer
//                                          waits in reader(), and later the producer's thread is
//                                          known
//
// The guard. The paper guards a block's first page. Here all of it is guarded, for two reasons. A
// consumer that jumps into the middle of a block would miss a guard on its first page; so it
// faults, and the blocks that it jumped over are decommitted. And protecting a 4 KiB page splits
// its huge page. Measured over 64 blocks, each committed, filled, guarded, opened, read and
// decommitted; microseconds, medians; first with one thread, then with the other core computing in
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
// Faults come as SIGSEGV only: a guard is a protection, and userfaultfd can protect against stores,
// not against loads.
//
// The system calls run under mutex_. They take the kernel's one lock of the address space anyway,
// so the sides would not overlap without it either; the slow part, clearing pages, happens in the
// user's own stores, without the lock.
//
// Address space: committed, guarded and open pieces are separate mappings, at most two per live
// block, whatever the length, far from vm.max_map_count. Under vm.overcommit_memory=2 only the live
// blocks are charged, because releasing a block replaces its mapping. A forked child has none of
// the range ahead, and no registration.

#include "memory/stream/guard_stream.h"

#include <algorithm>
#include <utility>

#include "base/access.h"
#include "base/check.h"

namespace penstock::stream {

// ---- opening

GuardStreamCore::GuardStreamCore(const Options& options)
    : TwoSidedCore({.geometry = StreamGeometry::of(options),
                    .name = options.name,
                    .policy = options.policy,
                    .strict = options.strict,
                    .one_address = true}) {}

Result<std::unique_ptr<GuardStreamCore>> GuardStreamCore::open(const Options& options) {
  if (auto valid = StreamGeometry::of(options).check(options.name); !valid)
    return std::unexpected(valid.error());
  if (options.read_ahead_blocks == 0)
    return failure(ErrorCode::invalid_argument, "open a stream", options.name,
                   "read_ahead_blocks: at least 1, the block that guards the one being read");
  std::unique_ptr<GuardStreamCore> core(new GuardStreamCore(options));

  auto reserved = os::Reservation::reserve(core->range_bytes());
  if (!reserved) return std::unexpected(reserved.error());
  os::Reservation& range = core->ranges_[0];
  range = std::move(*reserved);
  // Small blocks stay clear of huge pages: one would span several blocks, and a guard would split
  // it. A kernel without huge pages refuses, and has none to avoid.
  (void)os::advise_huge(range.begin(), range.bytes(), options.block_bytes >= os::huge_page_bytes);
  if (const int error = os::exclude_from_fork(range.begin(), range.bytes()))
    return system_error(error, "keep a stream from forked processes", options.name);
  if (auto watched = core->watch(Side::producer); !watched) return std::unexpected(watched.error());
  return core;
}

// ---- how a block appears and goes

// Opens a block to the producer, from nowhere; or to the consumer, from guarded, or from nowhere if
// the producer skipped it.
int GuardStreamCore::show(Slot& slot, Side side, Position position, bool) noexcept {
  PENSTOCK_CHECK(slot.position == position || slot.state == BlockState::nowhere,
                 "two live blocks of a stream need one slot");
  const Protection access =
      rules_.strict && side == Side::consumer ? Protection::read : Protection::read_write;
  return os::protect(address(side, position), block_bytes_, access);
}

int GuardStreamCore::hide(Slot& slot) noexcept {
  return os::decommit(address(Side::producer, slot.position), block_bytes_);
}

// Guards the blocks that the producer has completed, and decommits those that it will not complete
// and those behind both windows. Returns the first error; the next fault tries again.
int GuardStreamCore::retire(Side side, Position kept, Position complete) noexcept {
  int error = 0;
  if (side == Side::producer) {
    error = guard_until(complete);
    const int incomplete = give_back(complete, std::min(kept, blocks_max_));
    if (error == 0) error = incomplete;
  }
  const Position dead = std::max(dead_, std::min(kept, kept_by(other(side))));
  const int behind = give_back(dead_, dead);
  if (behind == 0) dead_ = dead;
  return error != 0 ? error : behind;
}

// Guards all blocks of the producer below `end`, which it has completed.
int GuardStreamCore::guard_until(Position end) noexcept {
  const Position begin = released();
  const Position last = std::min(end, begin + static_cast<Position>(slots_.size()));
  for (Position position = begin; position < last; ++position) {
    Slot& slot = slot_of(position);
    if (slot.position != position || slot.state != BlockState::producer) continue;
    if (const int error =
            os::protect(address(Side::producer, position), block_bytes_, Protection::none))
      return error;
    slot.state = BlockState::guarded;
  }
  return 0;
}

// Decommits the blocks [begin, end), in any state. REQUIRES: no live block in it lies slots_.size()
// or more behind `begin`.
int GuardStreamCore::give_back(Position begin, Position end) noexcept {
  const Position last = std::min(end, begin + static_cast<Position>(slots_.size()));
  for (Position position = begin; position < last; ++position) {
    Slot& slot = slot_of(position);
    if (slot.position != position || slot.state == BlockState::nowhere) continue;
    if (const int error = hide(slot)) return error;
    slot.state = BlockState::nowhere;
  }
  return 0;
}

// If the system refuses, the tables stay, which only costs memory.
void GuardStreamCore::free_page_tables(std::span<std::byte> piece) noexcept {
  (void)os::decommit(piece.data(), piece.size());
}

// ---- calls

// Asking does not yet make a thread the producer: a consumer may compare the pointer, and load on.
std::byte* GuardStreamCore::writer() {
  if (!is_inherited()) {
    MutexLock lock(mutex_);
    come_as_producer();
  }
  return address(Side::producer, 0);
}

// Waits for the start condition of Algorithm 8.
std::byte* GuardStreamCore::reader() {
  if (!is_inherited()) {
    MutexLock lock(mutex_);
    become_consumer();
    while (phase(Side::producer) == Phase::active && released() == 0) wait(sides_.changes.now());
  }
  return address(Side::consumer, 0);
}

uint64_t GuardStreamCore::memory_bytes() const {
  if (is_inherited()) return 0;
  MutexLock lock(mutex_);
  const auto live = std::count_if(slots_.begin(), slots_.end(), [](const Slot& slot) {
    return slot.state != BlockState::nowhere;
  });
  return static_cast<uint64_t>(live) * block_bytes_;
}

}  // namespace penstock::stream

// ---- the public class

namespace penstock {

Result<GuardStream> GuardStream::open(const Options& options) {
  return internal::opened<GuardStream>([&] { return stream::GuardStreamCore::open(options); });
}

}  // namespace penstock
