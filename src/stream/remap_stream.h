#pragma once

// The body of penstock::RemapStream (see include/penstock/remap_stream.h for use, remap_stream.cc
// for how it works).

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "fault/event_server.h"
#include "fault/registry.h"
#include "os/memory.h"
#include "penstock/remap_stream.h"
#include "pool/page_tables.h"
#include "pool/pool.h"
#include "stream/sides.h"
#include "stream/stream_handler.h"

namespace penstock::stream {

// Thread safety: any thread, also inside a fault handler, where fail() and open() may not stand.
// All state that changes is guarded by mutex_, under which no user code runs; blocks are moved
// outside of it, by whoever set Slot::moving. Invariants:
//   - reader_head_ - M <= readable positions < released_ <= writer_head_ + 1, and writer_head_ is
//     only granted a block while it is at most reader_head_ + N + L, so the live positions fit into
//     N + L + M + 1 slots, one each: position mod slots.
//   - a slot's block is at exactly one place for exactly one position; the other side may take it
//     only when the position is outside of the window of the side that holds it.
class RemapStreamCore final : public StreamHandler {
 public:
  using Options = RemapStream::Options;

  static Result<std::unique_ptr<RemapStreamCore>> open(const Options& options);
  ~RemapStreamCore();

  std::byte* writer() const { return ranges_[0].begin(); }
  std::byte* reader() const { return ranges_[1].begin(); }
  const pool::Pool& pool() const { return *pool_; }

  // The whole piece, which must lie in one window of the side.
  Status prepare(Side side, const void* address, size_t bytes) EXCLUDES_LOCK(mutex_);
  Status finish(uint64_t bytes) EXCLUDES_LOCK(mutex_);
  Result<uint64_t> wait_ready(uint64_t offset) EXCLUDES_LOCK(mutex_);
  void fail(Side side, Error error) EXCLUDES_LOCK(mutex_);
  Status status() const EXCLUDES_LOCK(mutex_);

  fault::Outcome on_fault(const fault::Fault& fault) noexcept override;
  fault::Outcome on_unservable(const fault::Fault& fault, fault::Unservable why) noexcept override;
  Result<size_t> prepare(std::byte* address, size_t bytes, fault::Access access) override
      EXCLUDES_LOCK(mutex_);

 private:
  Label label() const noexcept override { return {options_.name.c_str(), options_.policy}; }

  enum class Place : uint8_t { home, writer, reader };
  struct Slot {
    pool::BlockId block = pool::no_block;
    Position position = -1;  // what its contents are: nothing while at home
    Place place = Place::home;
    bool moving = false;   // somebody is moving it, without the lock
    bool awaited = false;  // somebody waits for the end of that move
  };

  enum class Phase : uint8_t { active, finished, failed };

  explicit RemapStreamCore(const Options& options);

  Verdict serve(Side side, Position position) noexcept EXCLUDES_LOCK(mutex_);
  void announce(Side side, Position position) noexcept REQUIRES_LOCK(mutex_);
  Verdict judge(Side side, Position position) const noexcept REQUIRES_LOCK(mutex_);
  Verdict judge_writer(Position position) const noexcept REQUIRES_LOCK(mutex_);
  Verdict judge_reader(Position position) const noexcept REQUIRES_LOCK(mutex_);
  int move(const Slot& from, Side side, Position position, bool cleared) noexcept;
  int retire(Side side, Position position) noexcept REQUIRES_LOCK(mutex_);
  int retire_below(Side side, Position kept) noexcept REQUIRES_LOCK(mutex_);
  void retire_all(Side side) noexcept REQUIRES_LOCK(mutex_);
  std::span<std::byte> left_behind(Side side) noexcept REQUIRES_LOCK(mutex_);

  Error error_of(Verdict verdict, Side side, Position position) const EXCLUDES_LOCK(mutex_);
  void give_up(Verdict verdict, Side side, Position position, void* context) const noexcept
      EXCLUDES_LOCK(mutex_);
  ErrorCode write_reason(char* text, size_t text_bytes, Verdict verdict, Side side,
                         Position position) const noexcept EXCLUDES_LOCK(mutex_);

  Side side_of(const void* address) const {
    return ranges_[0].contains(address) ? Side::producer : Side::consumer;
  }
  Position comeback_of(Side side) const {
    return side == Side::producer ? producer_comeback_ : consumer_comeback_;
  }
  Slot& slot_of(Position position) { return slots_[static_cast<size_t>(position) % slots_.size()]; }
  const Slot& slot_of(Position position) const {
    return slots_[static_cast<size_t>(position) % slots_.size()];
  }
  std::byte* address(Place place, Position position) const {
    return ranges_[place == Place::reader].begin() + static_cast<size_t>(position) * block_bytes_;
  }

  const Options options_;
  const size_t block_bytes_;
  const Position ahead_, producer_comeback_, consumer_comeback_;  // N, L, M
  const Position blocks_max_;                                     // blocks in Options::bytes

  std::unique_ptr<pool::Pool> pool_;
  std::array<os::Reservation, 2> ranges_;  // the writer's, the reader's

  mutable Mutex mutex_;
  std::vector<Slot>
      slots_;  // size fixed by open(); elements guarded by mutex_, or owned by who set `moving`
  Position writer_head_ GUARDED_BY(mutex_) = -1;  // the last position written to
  Position reader_head_ GUARDED_BY(mutex_) = -1;  // the last position read from
  Position released_ GUARDED_BY(mutex_) = 0;      // positions below are full, and the reader's
  uint64_t end_bytes_ GUARDED_BY(mutex_) = 0;     // the length, once finished
  std::array<Phase, 2> phase_ GUARDED_BY(mutex_) = {Phase::active, Phase::active};
  std::array<std::optional<Error>, 2> error_ GUARDED_BY(mutex_);
  std::array<std::string, 2> reason_
      GUARDED_BY(mutex_);  // error_ as text, made where allocation is allowed
  std::array<pool::PassedPageTables, 2> passed_ GUARDED_BY(mutex_);
  int map_errno_ GUARDED_BY(mutex_) = 0;
  Changes changes_;

  std::array<fault::Registration, 2> registrations_;  // last: gone before what the handler uses
  std::array<fault::EventServer, 2> events_;          // Options::system_calls
};

}  // namespace penstock::stream
