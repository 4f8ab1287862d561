#pragma once

// The body of penstock::GuardStream (see include/penstock/guard_stream.h for use, guard_stream.cc
// for how it works).

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "fault/registry.h"
#include "os/memory.h"
#include "penstock/guard_stream.h"
#include "pool/page_tables.h"
#include "stream/sides.h"
#include "stream/stream_handler.h"

namespace penstock::stream {

// Thread safety: any thread, also inside a fault handler, where fail() and open() may not stand.
// All state that changes, the protection of the blocks included, is guarded by mutex_, under which
// no user code runs. Invariants (c: reader_head_, w: writer_head_, each at least -1):
//   - released_ = max(0, w - L) while the producer is active, and w is only given a block while
//     w <= c + N + L;
//   - blocks below dead_ have no memory, and those with memory lie less than N + L + M + 1 apart:
//     one slot each, position mod slots;
//   - an active producer's blocks, from released_ on, are open to both sides; below released_ only
//     what a consumer has faulted in is open.
class GuardStreamCore final : public StreamHandler {
 public:
  using Options = GuardStream::Options;

  static Result<std::unique_ptr<GuardStreamCore>> open(const Options& options);
  ~GuardStreamCore() = default;

  std::byte* writer() const { return range_.begin(); }
  std::byte* reader() EXCLUDES_LOCK(mutex_);  // waits for the start condition

  // The whole piece, which must lie in one window of the side.
  Status prepare(Side side, const void* address, size_t bytes) EXCLUDES_LOCK(mutex_);
  Status finish(uint64_t bytes) EXCLUDES_LOCK(mutex_);
  Result<uint64_t> wait_ready(uint64_t offset) EXCLUDES_LOCK(mutex_);
  void fail(Side side, Error error) EXCLUDES_LOCK(mutex_);
  Status status() const EXCLUDES_LOCK(mutex_);
  uint64_t memory_bytes() const EXCLUDES_LOCK(mutex_);

  fault::Outcome on_fault(const fault::Fault& fault) noexcept override EXCLUDES_LOCK(mutex_);
  // For the producer when the access is a write, for the consumer when it is a read.
  Result<size_t> prepare(std::byte* address, size_t bytes, fault::Access access) override
      EXCLUDES_LOCK(mutex_);

 private:
  Label label() const noexcept override { return {options_.name.c_str(), options_.policy}; }

  // What becomes of a block; the arrows are in guard_stream.cc.
  enum class State : uint8_t { absent, producing, guarded, consuming };
  struct Slot {
    Position position = -1;
    State state = State::absent;
  };

  enum class Phase : uint8_t { active, finished, failed };

  explicit GuardStreamCore(const Options& options);

  Side side_of(Position position, fault::Access access) const noexcept REQUIRES_LOCK(mutex_);
  Verdict serve(Side side, Position position) noexcept REQUIRES_LOCK(mutex_);
  int announce(Side side, Position position) noexcept REQUIRES_LOCK(mutex_);
  Verdict judge_writer(Position position) const noexcept REQUIRES_LOCK(mutex_);
  Verdict judge_reader(Position position) const noexcept REQUIRES_LOCK(mutex_);
  State state_of(Position position) const noexcept REQUIRES_LOCK(mutex_);
  Position readable_end() const noexcept REQUIRES_LOCK(mutex_);
  Position dead_end() const noexcept REQUIRES_LOCK(mutex_);

  int admit(Side side, Position position) noexcept REQUIRES_LOCK(mutex_);
  int guard_until(Position end) noexcept REQUIRES_LOCK(mutex_);
  int give_back(Position begin, Position end) noexcept REQUIRES_LOCK(mutex_);
  int give_back_dead() noexcept REQUIRES_LOCK(mutex_);

  Error error_of(Verdict verdict, Side side, Position position) const REQUIRES_LOCK(mutex_);
  ErrorCode write_reason(char* text, size_t text_bytes, Verdict verdict, Side side,
                         Position position) const noexcept REQUIRES_LOCK(mutex_);

  Position comeback_of(Side side) const {
    return side == Side::producer ? producer_comeback_ : consumer_comeback_;
  }
  bool is(Side side, Phase phase) const noexcept REQUIRES_LOCK(mutex_) {
    return phase_[index_of(side)] == phase;
  }
  Slot& slot_of(Position position) REQUIRES_LOCK(mutex_) {
    return slots_[static_cast<size_t>(position) % slots_.size()];
  }
  std::byte* address(Position position) const {
    return range_.begin() + static_cast<size_t>(position) * block_bytes_;
  }

  const Options options_;
  const size_t block_bytes_;
  const Position ahead_, producer_comeback_, consumer_comeback_;  // N, L, M
  const Position blocks_max_;                                     // blocks in Options::bytes

  os::Reservation range_;

  mutable Mutex mutex_;
  std::vector<Slot> slots_ GUARDED_BY(mutex_);    // size fixed by the constructor
  Position writer_head_ GUARDED_BY(mutex_) = -1;  // w: the last position written to
  Position reader_head_ GUARDED_BY(mutex_) = -1;  // c: the last position read from
  Position released_ GUARDED_BY(mutex_) = 0;      // positions below are full, and guarded or read
  pool::PassedPageTables passed_ GUARDED_BY(mutex_);
  Position dead_ GUARDED_BY(mutex_) = 0;       // positions below were given back
  uint64_t end_bytes_ GUARDED_BY(mutex_) = 0;  // the length, once finished
  std::array<Phase, 2> phase_ GUARDED_BY(mutex_) = {Phase::active, Phase::active};
  std::array<std::optional<Error>, 2> error_ GUARDED_BY(mutex_);
  std::array<std::string, 2> reason_
      GUARDED_BY(mutex_);  // error_ as text, made where allocation is allowed
  int map_errno_ GUARDED_BY(mutex_) = 0;
  Changes changes_;

  fault::Registration registration_;  // last: gone before what the handler uses
};

}  // namespace penstock::stream
