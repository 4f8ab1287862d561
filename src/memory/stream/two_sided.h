#pragma once

// One stream with two sides: the common part of RemapStream, GuardStream and ProcessStream. See
// two_sided.cc for how it works.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "memory/fault/registry.h"
#include "memory/pool/page_tables.h"
#include "memory/stream/sides.h"
#include "memory/stream/stream_handler.h"
#include "os/memory.h"
#include "penstock/stream.h"

namespace penstock::stream {

enum class Phase : uint32_t {
  active,
  failing,  // the reason is being written
  finished,
  failed,
};

// State that the sides share: a few numbers that only grow. Between processes it lies in memory
// that both have mapped. Each number is written by the side that it belongs to; the phase of a dead
// process is written by the survivor.
struct alignas(64) Sides {
  std::array<std::atomic<Position>, 2> head{-1, -1};  // the last block that each side came to
  std::array<std::atomic<Phase>, 2> phase{};
  std::atomic<Position> released = 0;   // blocks below are complete, and the consumer's
  std::atomic<uint64_t> end_bytes = 0;  // length, once finished
  EventCount changes;                   // announced after any change above

  // Reason of a side's failure. Written between `failing` and `failed`.
  struct Reason {
    uint32_t code = 0;
    char text[256] = {};
  };
  std::array<Reason, 2> reason;
};

// Thread safety: any thread, also inside a fault handler, except for fail() and opening. mutex_
// guards what changes; no user code runs under it, and nothing waits for the other side under it.
// Invariants (w: the producer's head, c: the consumer's):
//   - released = max(0, w - L) while the producer is active, and w is only given a block while
//     w <= c + N + L; so the live blocks fit into N + L + M + 1 slots, one each: position mod slots.
//   - a block is at a side's address exactly when its slot says so, or is `moving`; nothing behind
//     both windows is live.
//   - own heads are in head_; the copies in Sides are for the other side.
class TwoSidedCore : public StreamHandler {
 public:
  virtual std::byte* writer() EXCLUDES_LOCK(mutex_) { return address(Side::producer, 0); }
  virtual std::byte* reader() EXCLUDES_LOCK(mutex_) { return address(Side::consumer, 0); }
  virtual uint64_t memory_bytes() const EXCLUDES_LOCK(mutex_) = 0;
  // Prepares the whole piece, which must lie in one window of the side.
  Status prepare(Side side, const void* address, size_t bytes) EXCLUDES_LOCK(mutex_);
  virtual Status finish(uint64_t bytes) EXCLUDES_LOCK(mutex_);
  virtual Result<uint64_t> wait_ready(uint64_t offset) EXCLUDES_LOCK(mutex_);
  virtual void fail(Side side, Error error) EXCLUDES_LOCK(mutex_);
  // Like fail() with ErrorCode::cancelled; an exhausted heap costs only the message.
  virtual void cancel(Side side, const char* attempted) noexcept EXCLUDES_LOCK(mutex_);
  Status status() const EXCLUDES_LOCK(mutex_);

  fault::Outcome on_fault(const fault::Fault& fault) noexcept final EXCLUDES_LOCK(mutex_);
  Result<size_t> prepare(std::byte* address, size_t bytes, fault::Access access) override
      EXCLUDES_LOCK(mutex_);

 protected:
  // A block is touched at the address of this side, or of none.
  enum class BlockState : uint8_t { nowhere, producer, guarded, consumer };
  static constexpr BlockState state_of(Side side) {
    return side == Side::producer ? BlockState::producer : BlockState::consumer;
  }
  struct Slot {
    Position position = -1;  // position of the block that was there last
    BlockState state = BlockState::nowhere;
    bool moving = false;   // a thread is moving the block, without the lock
    bool awaited = false;  // a thread waits for the end of that move
  };

  struct Rules {
    StreamGeometry geometry;
    std::string name;  // for messages
    ErrorPolicy policy;
    bool strict;
    // Both sides have one address, at which only a guard on the next block stops the consumer.
    bool one_address = false;
    Sides* shared = nullptr;  // state shared by two processes; nullptr: the sides are threads
  };
  // REQUIRES: the geometry has been checked.
  explicit TwoSidedCore(const Rules& rules);
  ~TwoSidedCore() = default;

  // Serves faults in the side's range from now on. REQUIRES: the range is set.
  Status watch(Side side);
  // Ends that; no thread is in a handler any more. A derived destructor calls it first.
  void stop_watching();

  // ---- Functions that a mechanism adds: how a block appears and vanishes. Those that return int
  // return 0 or an errno; after an error nothing has changed.

  // Makes the slot's block appear at the side's address; as zeros if `cleared`. Otherwise a
  // producer's contents do not matter, and a consumer's are what the producer stored for this
  // position, or zeros. May give up the lock while the slot is `moving`.
  virtual int show(Slot& slot, Side side, Position position, bool cleared) noexcept
      REQUIRES_LOCK(mutex_) = 0;
  // Makes the slot's block inaccessible. May give up the lock in the same way.
  virtual int hide(Slot& slot) noexcept REQUIRES_LOCK(mutex_) = 0;
  // Hides the side's blocks below `kept`, which it must no longer touch, before the other side
  // learns of it; blocks in [complete, kept) will never be completed. A block on its way to the
  // side is hidden by the thread that moves it. For strict streams, and those with one address.
  virtual int retire(Side side, Position kept, Position complete) noexcept REQUIRES_LOCK(mutex_);
  // Frees the page tables of a piece of a range in which no block is, or will be.
  virtual void free_page_tables(std::span<std::byte> piece) noexcept EXCLUDES_LOCK(mutex_) = 0;
  // Between processes: waits until something has changed since sides_.changes.now() was `seen`, or
  // for a while.
  virtual void wait_for_process(uint32_t seen) noexcept EXCLUDES_LOCK(mutex_) { (void)seen; }

  // ---- For mechanisms

  // Returns whether the block is mapped now. Otherwise the process ends, or the interrupted code
  // continues at its recovery point; without a context, nothing happens.
  bool serve(const fault::Fault& fault) noexcept EXCLUDES_LOCK(mutex_);
  Result<size_t> prepare_window(Side side, std::byte* address, size_t bytes) EXCLUDES_LOCK(mutex_);
  // Gives up the lock until something may have changed since sides_.changes.now() was `seen`.
  void wait(uint32_t seen) noexcept REQUIRES_LOCK(mutex_);
  void announce_change() noexcept;
  // Makes this thread a consumer's from now on (one address).
  void become_consumer() noexcept REQUIRES_LOCK(mutex_);
  // Notes that this thread may be about to store (one address). If another thread stored last, this
  // one takes over and stops being the consumer's; otherwise it may be both sides.
  void come_as_producer() noexcept REQUIRES_LOCK(mutex_);

  Phase phase(Side side) const noexcept {
    return sides_.phase[index_of(side)].load(std::memory_order_acquire);
  }
  Position released() const noexcept { return sides_.released.load(std::memory_order_acquire); }
  // Returns the first position that the side may still touch.
  Position kept_by(Side side) const noexcept REQUIRES_LOCK(mutex_);
  // Stores the reason and sets the phase to `failed`. REQUIRES: this thread has set `failing`.
  void write_failure(Side side, ErrorCode code, const char* reason) noexcept;
  // Copies the other side's reason, and terminates the copy.
  ErrorCode read_failure(Side side, char (&reason)[256]) const noexcept;
  Error error_of(Verdict verdict, Side side, Position position) const REQUIRES_LOCK(mutex_);
  // REQUIRES: the side has failed.
  Error failure_of(Side side) const REQUIRES_LOCK(mutex_);
  Error failure_while_discarding(Side side) REQUIRES_LOCK(mutex_);

  size_t slot_index(Position position) const noexcept REQUIRES_LOCK(mutex_) {
    return static_cast<size_t>(position) % slots_.size();
  }
  Slot& slot_of(Position position) noexcept REQUIRES_LOCK(mutex_) {
    return slots_[slot_index(position)];
  }
  Side side_of_range(const std::byte* address) const noexcept {
    return ranges_[0].contains(address) ? Side::producer : Side::consumer;
  }
  const os::Reservation& range_of(Side side) const {
    return ranges_[rules_.one_address ? 0 : index_of(side)];
  }
  std::byte* address(Side side, Position position) const noexcept {
    return range_of(side).begin() + static_cast<size_t>(position) * block_bytes_;
  }
  // Size of a side's range: a block more than the stream has, for the zeros behind its end.
  uint64_t range_bytes() const { return static_cast<uint64_t>(behind_all()) * block_bytes_; }
  Position position_of(Side side, const std::byte* at) const noexcept {
    return static_cast<Position>(static_cast<size_t>(at - range_of(side).begin()) / block_bytes_);
  }
  Position behind_all() const noexcept { return blocks_max_ + 1; }
  Position comeback_of(Side side) const noexcept { return comeback_[index_of(side)]; }

  const Rules rules_;
  const size_t block_bytes_;
  const Position ahead_;                    // N
  const std::array<Position, 2> comeback_;  // L, M
  const Position blocks_max_;               // blocks in StreamGeometry::bytes
  const std::unique_ptr<Sides> own_;        // owned if the sides are threads
  Sides& sides_;                            // *own_, or the state that two processes share
  // Ranges of producer and consumer; with one address the first is for both.
  std::array<os::Reservation, 2> ranges_;

  mutable Mutex mutex_;
  std::vector<Slot> slots_ GUARDED_BY(mutex_);  // their number never changes
  std::array<Position, 2> head_ GUARDED_BY(mutex_) = {-1, -1};

 private:
  Label label() const noexcept final { return {rules_.name.c_str(), rules_.policy}; }

  void fail(Side side, ErrorCode code, const char* reason, std::optional<Error> error) noexcept
      EXCLUDES_LOCK(mutex_);
  Verdict serve(Side side, Position position) noexcept REQUIRES_LOCK(mutex_);
  bool waits_for_itself(Slot& slot, Side side, Position position) noexcept REQUIRES_LOCK(mutex_);
  bool may_discard(Verdict verdict, Side side) const noexcept REQUIRES_LOCK(mutex_);
  bool discard(Side side, Position position, const Failure& failure) noexcept REQUIRES_LOCK(mutex_);
  Side side_of(const fault::Fault& fault) const noexcept REQUIRES_LOCK(mutex_);
  int come_to(Side side, Position position) noexcept REQUIRES_LOCK(mutex_);
  int leave(Side side, Position kept, Position complete) noexcept REQUIRES_LOCK(mutex_);
  Verdict judge(Slot& slot, Side side, Position position) noexcept REQUIRES_LOCK(mutex_);
  Verdict judge_producer(Position position) const noexcept REQUIRES_LOCK(mutex_);
  Verdict judge_consumer(Position position) const noexcept REQUIRES_LOCK(mutex_);
  // Forgets that this thread last came as `side` (one address), until it faults as that again.
  void no_longer(Side side) noexcept REQUIRES_LOCK(mutex_);
  Position readable_end(Phase producer) const noexcept;
  Window window_of(Side side) const {
    return {range_of(side), block_bytes_, comeback_of(side), comeback_option_of(side)};
  }
  void free_left_behind(Side side) noexcept REQUIRES_LOCK(mutex_);
  WrittenFailure refusal_of(Verdict verdict, Side side, Position position) const noexcept
      REQUIRES_LOCK(mutex_);

  std::array<pool::PassedPageTables, 2> passed_ GUARDED_BY(mutex_);
  std::array<Jump, 2> jump_ GUARDED_BY(mutex_);
  std::array<Position, 2> retired_ GUARDED_BY(mutex_) = {0, 0};  // blocks below were hidden
  // Thread that last came as each side (one address).
  std::array<uint64_t, 2> came_ GUARDED_BY(mutex_) = {0, 0};
  uint64_t last_producer_ GUARDED_BY(mutex_) = 0;  // the thread that stored last
  // Set under ErrorPolicy::zeros when a block could not be mapped for the side, or the producer has
  // broken a limit: loads then find zeros, and the producer's stores go to fresh memory, of which
  // it has two blocks at a time, because a store may straddle two.
  std::array<bool, 2> discards_ GUARDED_BY(mutex_) = {};
  std::array<Position, 2> discarded_blocks_ GUARDED_BY(mutex_) = {-1, -1};
  std::array<std::optional<Error>, 2> error_ GUARDED_BY(mutex_);  // if the sides are threads
  int map_errno_ GUARDED_BY(mutex_) = 0;
  std::array<fault::Registration, 2> registrations_;
};

}  // namespace penstock::stream
