#pragma once

// One stream with two sides: what RemapStream, GuardStream and ProcessStream have in common. See
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

// The state that the sides share: a few numbers that only grow. Between processes it lies in
// memory that both have mapped. Each number is written by the side that it belongs to; the phase of
// a dead process is written by the survivor.
struct alignas(64) Sides {
  std::array<std::atomic<Position>, 2> head{-1, -1};  // the last block that each side came to
  std::array<std::atomic<Phase>, 2> phase{};
  std::atomic<Position> released = 0;   // blocks below are complete, and the consumer's
  std::atomic<uint64_t> end_bytes = 0;  // the length, once finished
  EventCount changes;                   // of anything above

  // Why a side failed. Written between `failing` and `failed`.
  struct Reason {
    uint32_t code = 0;
    char text[256] = {};
  };
  std::array<Reason, 2> reason;
};

// Thread safety: any thread, also inside a fault handler, where fail() and opening may not stand.
// What changes is guarded by mutex_, under which no user code runs and nothing waits for the other
// side. Invariants (w: the producer's head, c: the consumer's):
//   - released = max(0, w - L) while the producer is active, and w is only given a block while
//     w <= c + N + L; so the live blocks fit into N + L + M + 1 slots, one each: position mod slots.
//   - a block is at the address of a side exactly when its slot says so, or is `moving`; nothing
//     behind both windows is live.
//   - own heads are kept in head_; the copies in Sides are for the other side.
class TwoSidedCore : public StreamHandler {
 public:
  virtual std::byte* writer() EXCLUDES_LOCK(mutex_) { return address(Side::producer, 0); }
  virtual std::byte* reader() EXCLUDES_LOCK(mutex_) { return address(Side::consumer, 0); }
  virtual uint64_t memory_bytes() const EXCLUDES_LOCK(mutex_) = 0;
  // The whole piece, which must lie in one window of the side.
  Status prepare(Side side, const void* address, size_t bytes) EXCLUDES_LOCK(mutex_);
  virtual Status finish(uint64_t bytes) EXCLUDES_LOCK(mutex_);
  virtual Result<uint64_t> wait_ready(uint64_t offset) EXCLUDES_LOCK(mutex_);
  virtual void fail(Side side, Error error) EXCLUDES_LOCK(mutex_);
  // As fail() with ErrorCode::cancelled. For destructors: a heap that is used up costs the words alone.
  virtual void cancel(Side side, const char* attempted) noexcept EXCLUDES_LOCK(mutex_);
  Status status() const EXCLUDES_LOCK(mutex_);

  fault::Outcome on_fault(const fault::Fault& fault) noexcept final EXCLUDES_LOCK(mutex_);
  Result<size_t> prepare(std::byte* address, size_t bytes, fault::Access access) override
      EXCLUDES_LOCK(mutex_);

 protected:
  // At whose address a block can be touched.
  enum class Place : uint8_t { nowhere, producer, guarded, consumer };
  static constexpr Place place_of(Side side) {
    return side == Side::producer ? Place::producer : Place::consumer;
  }
  struct Slot {
    Position position = -1;  // of the block that was there last
    Place place = Place::nowhere;
    bool moving = false;   // a thread is moving the block, without the lock
    bool awaited = false;  // a thread waits for the end of that move
  };

  struct Rules {
    Shape shape;
    std::string name;  // for messages
    ErrorPolicy policy;
    bool strict;
    // Both sides have one address, where only a guard on the next block stops the consumer.
    bool one_address = false;
    Sides* shared = nullptr;  // of two processes; nullptr: the sides are threads
  };
  // REQUIRES: the shape has been checked.
  explicit TwoSidedCore(const Rules& rules);
  ~TwoSidedCore() = default;

  // From here on the side's range is served. REQUIRES: the range is set.
  Status watch(Side side);
  // No thread is in a handler any more. The first thing that a derived destructor does.
  void stop_watching();

  // ---- What a mechanism adds: how a block appears and goes. Those that return int give 0 or an
  // errno; on an error nothing has changed.

  // The slot's block appears at the side's address. `cleared`: as zeros. Otherwise a producer's
  // contents do not matter, and a consumer's are what the producer stored for this position, or
  // zeros. May give up the lock while the slot is `moving`.
  virtual int show(Slot& slot, Side side, Position position, bool cleared) noexcept
      REQUIRES_LOCK(mutex_) = 0;
  // The slot's block can no longer be touched. May give up the lock in the same way.
  virtual int hide(Slot& slot) noexcept REQUIRES_LOCK(mutex_) = 0;
  // Hides the blocks that the side must no longer touch, those below `kept`, before the other side is
  // told; blocks in [complete, kept) will never be completed. A block that is on its way to the side is
  // hidden by the thread that moves it. For strict streams, and those with one address.
  virtual int retire(Side side, Position kept, Position complete) noexcept REQUIRES_LOCK(mutex_);
  // Gives back the page tables of a piece of a range where no block is, or will be.
  virtual void free_page_tables(std::span<std::byte> piece) noexcept EXCLUDES_LOCK(mutex_) = 0;
  // Between processes: until something has changed since sides_.changes.now() was `seen`, or for a
  // while.
  virtual void wait_for_process(uint32_t seen) noexcept EXCLUDES_LOCK(mutex_) { (void)seen; }

  // ---- For mechanisms

  // Whether the block is there now. Otherwise the process has ended, or the interrupted code will
  // go on at its recovery point; where there is no context, nothing has happened.
  bool serve(const fault::Fault& fault) noexcept EXCLUDES_LOCK(mutex_);
  Result<size_t> prepare_window(Side side, std::byte* address, size_t bytes) EXCLUDES_LOCK(mutex_);
  // Gives the lock up until something may have changed since sides_.changes.now() was `seen`.
  void wait(uint32_t seen) noexcept REQUIRES_LOCK(mutex_);
  void tell_change() noexcept;
  // With one address: this thread is a consumer's from here on.
  void become_consumer() noexcept REQUIRES_LOCK(mutex_);
  // With one address: this thread may be about to store. If another one stored last, it takes over and is the
  // consumer's no longer; otherwise it may be both sides.
  void come_as_producer() noexcept REQUIRES_LOCK(mutex_);

  Phase phase(Side side) const noexcept {
    return sides_.phase[index_of(side)].load(std::memory_order_acquire);
  }
  Position released() const noexcept { return sides_.released.load(std::memory_order_acquire); }
  // The first position that the side may still touch.
  Position kept_by(Side side) const noexcept REQUIRES_LOCK(mutex_);
  // Completes the step to `failed`. REQUIRES: the phase is `failing`, and this thread made it so.
  void write_failure(Side side, ErrorCode code, const char* reason) noexcept;
  // The reason is as the other side wrote it: it need not have an end.
  ErrorCode read_failure(Side side, char (&reason)[256]) const noexcept;
  Error error_of(Verdict verdict, Side side, Position position) const REQUIRES_LOCK(mutex_);
  // REQUIRES: the side has failed.
  Error failure_of(Side side) const REQUIRES_LOCK(mutex_);
  Error failure_that_went_nowhere(Side side) REQUIRES_LOCK(mutex_);

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
  // The bytes of a side's range: a block more than the stream has, for the zeros behind its end.
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
  const Position blocks_max_;               // blocks in Shape::bytes
  const std::unique_ptr<Sides> own_;        // of threads
  Sides& sides_;                            // *own_, or what two processes share
  // The producer's, the consumer's; with one address the first is for both.
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
  bool may_go_nowhere(Verdict verdict, Side side) const noexcept REQUIRES_LOCK(mutex_);
  bool go_nowhere(Side side, Position position, const Failure& failure) noexcept
      REQUIRES_LOCK(mutex_);
  Side side_of(const fault::Fault& fault) const noexcept REQUIRES_LOCK(mutex_);
  int come_to(Side side, Position position) noexcept REQUIRES_LOCK(mutex_);
  int leave(Side side, Position kept, Position complete) noexcept REQUIRES_LOCK(mutex_);
  Verdict judge(Slot& slot, Side side, Position position) noexcept REQUIRES_LOCK(mutex_);
  Verdict judge_producer(Position position) const noexcept REQUIRES_LOCK(mutex_);
  Verdict judge_consumer(Position position) const noexcept REQUIRES_LOCK(mutex_);
  // With one address: this thread is not the side's, until it faults as that again.
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
  // With one address: the thread that last came as each side.
  std::array<uint64_t, 2> came_ GUARDED_BY(mutex_) = {0, 0};
  uint64_t last_producer_ GUARDED_BY(mutex_) = 0;  // the thread that stored last
  // With ErrorPolicy::zeros, once a block could not be mapped for the side, or the producer has broken a
  // limit: loads find zeros, and what the producer stores goes to fresh memory, of which it has two
  // blocks at a time, for a store may straddle two.
  std::array<bool, 2> goes_nowhere_ GUARDED_BY(mutex_) = {};
  std::array<Position, 2> nowhere_ GUARDED_BY(mutex_) = {-1, -1};
  std::array<std::optional<Error>, 2> error_ GUARDED_BY(mutex_);  // of threads that failed
  int map_errno_ GUARDED_BY(mutex_) = 0;
  std::array<fault::Registration, 2> registrations_;
};

}  // namespace penstock::stream
