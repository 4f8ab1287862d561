// How a block gets from the producer's address to the consumer's: the mechanism of RemapStream.
// (Heads, windows, waiting and the end: two_sided.cc.)
//
// Guard pages on one buffer (Vortex-B, guard_stream.cc) give plain pointers, too, but the kernel
// clears every page anew, and a reader that jumps over its guard reads half-written data. Here
// (Vortex-C, section 4.3) each side has its own address, and the physical block moves from one to
// the other. A position x keeps its slot:
//
//   an older position's,   --write fault-->  at the producer's  --read fault-->  at the consumer's
//   anywhere                   in x              address            in x             address
//        ^                                                                              |
//        +------------------------- write fault in x + slots ---------------------------+
//
// One move per fault: the consumer's takes the block from the producer's address, the producer's
// takes it from where the consumer left it (or the producer, if the consumer jumped). The thread
// that has set Slot::moving makes the move, without the lock. A position that the producer skipped,
// or one past the end, has no contents: the consumer's fault takes the slot's block home, clears it
// there and maps it.
//
// The two views are different addresses of the same memory, and the mutex orders stores and loads
// as it orders anything else.
//
// Breaches. A strict side takes a block home before the other side learns of it, in the thread that
// has left it, so every breach faults; that costs one more move per block and side. (With the
// shared pool that is the unmapping which otherwise waits for a batch.) If not strict, a block
// stays at its old address until the other side has taken it (or its slot has been used again), and
// an access until then goes unnoticed and races with the other side: a move by mremap leaves a
// mapping for a moment, in which a store is lost, and the shared pool leaves old views until a
// batch is full, in which a store spoils a newer block. In both, an address that was never touched
// is never mapped early, so the waits hold.

#include "memory/stream/remap_stream.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "base/access.h"

namespace penstock::stream {

// ---- opening and closing

RemapStreamCore::RemapStreamCore(const Options& options)
    : TwoSidedCore({.geometry = StreamGeometry::of(options),
                    .name = options.name,
                    .policy = options.policy,
                    .strict = options.strict}),
      system_calls_(options.system_calls) {}

Result<std::unique_ptr<RemapStreamCore>> RemapStreamCore::open(const Options& options) {
  const StreamGeometry geometry = StreamGeometry::of(options);
  if (auto valid = geometry.check(options.name); !valid) return std::unexpected(valid.error());
  std::unique_ptr<RemapStreamCore> core(new RemapStreamCore(options));

  const uint32_t slots = geometry.live_blocks();
  auto pool = pool::Pool::open({.block_bytes = options.block_bytes,
                                .blocks_max = slots,
                                .mechanism = options.mechanism,
                                .use = pool::Use::between_threads,
                                .strict = options.strict,
                                .sparse = options.sparse,
                                .system_calls = options.system_calls});
  if (!pool) return std::unexpected(pool.error());
  core->pool_ = std::move(*pool);

  for (os::Reservation& range : core->ranges_) {
    auto reserved = core->pool_->reserve(core->range_bytes());
    if (!reserved) return std::unexpected(reserved.error());
    range = std::move(*reserved);
  }
  core->blocks_.reserve(slots);
  while (core->blocks_.size() < slots) {
    const pool::BlockId block = core->pool_->take();
    if (block == pool::no_block) {
      return failure(ErrorCode::out_of_memory,
                     fmt::format("get {} blocks of {} bytes", slots, options.block_bytes),
                     options.name, "smaller or fewer blocks");
    }
    core->blocks_.push_back(block);
  }
  for (const Side side : {Side::producer, Side::consumer}) {
    if (auto watched = core->watch(side); !watched) return std::unexpected(watched.error());
    if (os::Userfault* events = core->pool_->events_of(core->range_of(side))) {
      auto server = fault::EventServer::start(*events, *core);
      if (!server) return std::unexpected(server.error());
      core->events_[index_of(side)] = std::move(*server);
    }
  }
  return core;
}

// Takes no lock: in a forked child a thread of the parent may have had it.
RemapStreamCore::~RemapStreamCore() {
  for (fault::EventServer& events : events_) events = {};
  stop_watching();
  for (size_t i = 0; i < blocks_.size(); ++i) {
    // A block that cannot be unmapped is lost with its range, and the pool after it.
    if (slots_[i].state != BlockState::nowhere &&
        pool_->unmap(blocks_[i], address_of(slots_[i])) != 0)
      continue;
    pool_->give(blocks_[i]);
  }
  for (os::Reservation& range : ranges_) {
    if (range.begin() != nullptr) pool_->release(range);
    range = {};
  }
}

// ---- how a block appears and goes

// Handles Options::system_calls: a page whose fault on_fault() declined is poisoned, and its thread
// gets that as a memory error.
fault::Outcome RemapStreamCore::on_unservable(const fault::Fault& fault,
                                              fault::Unservable why) noexcept {
  const bool may_be_refused = why == fault::Unservable::memory_error && system_calls_;
  if (!may_be_refused || is_inherited() || serve(fault))
    return StreamHandler::on_unservable(fault, why);
  return fault::Outcome::retry;
}

// Runs `move` without the lock; threads that need this slot wait meanwhile.
template <class Move>
int RemapStreamCore::without_lock(Slot& slot, Move move) noexcept {
  slot.moving = true;
  mutex_.unlock();
  const int error = move();
  mutex_.lock();
  slot.moving = false;
  if (std::exchange(slot.awaited, false)) announce_change();
  return error;
}

int RemapStreamCore::show(Slot& slot, Side side, Position position, bool cleared) noexcept {
  const bool zeros = cleared || (side == Side::consumer && slot.position != position);
  if (zeros && slot.state != BlockState::nowhere) {
    if (const int error = hide(slot)) return error;
    slot.state = BlockState::nowhere;
  }
  const pool::BlockId block = block_of(slot);
  std::byte* const from = slot.state == BlockState::nowhere ? nullptr : address_of(slot);
  std::byte* const to = address(side, position);
  return without_lock(slot, [=, this] {
    if (from != nullptr) return pool_->remap(block, from, to);
    if (zeros) std::memset(pool_->home(block), 0, block_bytes_);
    return pool_->map(block, to);
  });
}

int RemapStreamCore::hide(Slot& slot) noexcept {
  const pool::BlockId block = block_of(slot);
  std::byte* const from = address_of(slot);
  return without_lock(slot, [=, this] { return pool_->unmap(block, from); });
}

// If the system refuses, the tables stay, which only costs memory.
void RemapStreamCore::free_page_tables(std::span<std::byte> piece) noexcept {
  (void)pool_->free_page_tables(piece);
}

}  // namespace penstock::stream

// ---- the public class

namespace penstock {

Result<RemapStream> RemapStream::open(const Options& options) {
  return internal::opened<RemapStream>([&] { return stream::RemapStreamCore::open(options); });
}

Mechanism RemapStream::mechanism() const {
  return static_cast<const stream::RemapStreamCore&>(*core_).pool().mechanism();
}

}  // namespace penstock
