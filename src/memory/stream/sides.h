#pragma once

// Words and arithmetic that streams share: sides, windows, verdicts, messages, waiting.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <string>

#include "base/mutex.h"
#include "memory/stream/recovery.h"
#include "os/memory.h"
#include "penstock/base.h"
#include "penstock/stream.h"

namespace penstock::stream {

// A number of a block in a stream. Signed: the heads of the sides start before the first one.
using Position = int64_t;

constexpr size_t index_of(Side side) {
  return static_cast<size_t>(side);
}
constexpr Side other(Side side) {
  return side == Side::producer ? Side::consumer : Side::producer;
}
constexpr const char* name_of(Side side) {
  return side == Side::producer ? "producer" : "consumer";
}
constexpr const char* comeback_option_of(Side side) {
  return side == Side::producer ? "producer_comeback_blocks" : "consumer_comeback_blocks";
}

// How a stream with two sides was opened.
struct Shape {
  uint64_t bytes;
  size_t block_bytes;
  uint32_t read_ahead_blocks = 0, producer_comeback_blocks = 0,
           consumer_comeback_blocks = 0;  // N, L, M

  // Of the options of any of these streams.
  template <class Options>
  static Shape of(const Options& options) {
    return {.bytes = options.bytes,
            .block_bytes = options.block_bytes,
            .read_ahead_blocks = options.read_ahead_blocks,
            .producer_comeback_blocks = options.producer_comeback_blocks,
            .consumer_comeback_blocks = options.consumer_comeback_blocks};
  }

  Status check(const std::string& name) const;
  // Blocks of the stream, and how many of them, with the zeros behind the last, live at once.
  Position blocks() const;
  uint32_t live_blocks() const;
};

// What may be touched at once: whole blocks of a range, so many as can be come back over, and one.
struct Window {
  const os::Reservation& range;
  size_t block_bytes;
  Position comeback;                                // blocks
  const char* comeback_option = "comeback_blocks";  // for messages
  const char* kind = "a stream";                    // for messages

  struct Blocks {
    Position first, last;
    auto each() const { return std::views::iota(first, last + 1); }
  };
  // The blocks of a piece that a system call wants. REQUIRES: bytes > 0. Errors: invalid_argument.
  Result<Blocks> blocks(const void* address, size_t bytes, const std::string& name) const;
  // The blocks of a piece of the range. REQUIRES: bytes > 0.
  Blocks blocks_of(const void* address, size_t bytes) const;
  // How many of the bytes from `address` on lie in one window. REQUIRES: `address` is in the range.
  size_t fitting(const std::byte* address, size_t bytes) const;
  // Calls Status serve(Position) for the blocks of these bytes until one fails. Returns how many bytes are ready; the
  // first block's error.
  template <class Serve>
  Result<size_t> serve_fitting(std::byte* address, size_t bytes, Serve serve) const {
    const size_t fits = fitting(address, bytes);
    const Blocks blocks = blocks_of(address, fits);
    for (const Position position : blocks.each()) {
      const Status served = serve(position);
      if (served) continue;
      if (position == blocks.first) return std::unexpected(served.error());
      return static_cast<size_t>(range.begin() + static_cast<size_t>(position) * block_bytes -
                                 address);
    }
    return fits;
  }
};

// The last jump forward of a side: it went from one block to another and skipped those between.
struct Jump {
  Position from = -1, to = -1;

  void note(Position head, Position next) noexcept {
    if (next > head + 1) *this = {head, next};
  }
  bool skipped(Position position) const noexcept { return position > from && position < to; }
};

// What a side that needs a block is told.
enum class Verdict : uint8_t {
  present,       // it is there already
  take,          // take the block with its contents
  take_cleared,  // take the block, as zeros
  wait,          // for the other side, or for a thread that is moving the block
  // and what cannot be served:
  other_failed,   // the other side gave up
  behind_window,  // the block was given away: L or M is too small
  past_capacity,  // the producer is beyond the bytes that the stream was opened for
  past_end,       // the consumer is beyond the end and the zeros behind it
  side_ended,     // this side said that it was done
  own_wait,       // its thread is the other side as well, and would wait for itself
  unannounced,  // a load with one address, from a thread that has not asked where the reader may begin
  unmapped,     // the system refused to map the block
};

// What a message about a refusal says beside the verdict.
struct Refusal {
  Verdict verdict;
  Side side;
  Position position = 0;
  Position head = 0;      // how far the side had come
  Position comeback = 0;  // L or M
  const char* comeback_option = "comeback_blocks";
  Jump jump = {};
  bool handed_over = false;  // behind_window: a store, perhaps the consumer's, which may not store
  uint64_t capacity_bytes = 0;
  uint64_t end_bytes = 0;  // once finished
  int map_errno = 0;
  const char* other_reason = "";  // other_failed: why
  ErrorCode other_code = ErrorCode::cancelled;
};

// The refusal in words, about the stream `name`. May stand on the fault path.
WrittenFailure written(const Refusal& refusal, const char* name) noexcept;

// Lets threads, or processes, wait for a state to change. May be used in handlers. (An eventcount.)
//
// The other side usually answers within a move or two, so a waiter spins before it sleeps. Thread
// safety: wait() and announce() are called with the mutex held that guards the state; the `_shared`
// ones, for a word that two processes have mapped, need none. Invariant: the counter says no more
// than that looking again may be worth it.
class EventCount {
 public:
  // Gives the mutex up until something has changed.
  void wait(Mutex& mutex) noexcept REQUIRES_LOCK(mutex);
  void announce() noexcept;

  // To be asked before the state is looked at.
  uint32_t now() const noexcept { return count_.load(std::memory_order_seq_cst); }
  // Until something has changed since now() was `seen`. The other process may die, so this has an
  // end. Whether something has changed.
  bool wait_shared(uint32_t seen, uint32_t wait_ms_max) noexcept;
  // Called after the state has changed.
  void announce_shared() noexcept;

 private:
  void spin(uint32_t seen) const noexcept;

  uint32_t waiting_ = 0;  // threads in wait(); guarded by the mutex
  std::atomic<uint32_t> count_ = 0;
  std::atomic<uint32_t> sleeping_ = 0;  // too many where a sleeping process was killed
};

}  // namespace penstock::stream
