#pragma once

// Types and arithmetic that streams share: sides, windows, verdicts, messages, waiting.

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

// The number of a block in a stream. Signed: the heads of the sides start before the first one.
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

// Geometry with which a stream with two sides was opened.
struct StreamGeometry {
  uint64_t bytes;
  size_t block_bytes;
  uint32_t read_ahead_blocks = 0, producer_comeback_blocks = 0,
           consumer_comeback_blocks = 0;  // N, L, M

  // Copies the geometry out of the options of any of these streams.
  template <class Options>
  static StreamGeometry of(const Options& options) {
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

// The blocks of a range that may be touched at once: the last one, and `comeback` in front of it.
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
  // Blocks of a piece that a system call wants. REQUIRES: bytes > 0. Errors: invalid_argument.
  Result<Blocks> blocks(const void* address, size_t bytes, const std::string& name) const;
  // Blocks of a piece of the range. REQUIRES: bytes > 0.
  Blocks blocks_of(const void* address, size_t bytes) const;
  // Returns how many of the bytes from `address` on lie in one window. REQUIRES: it is in range.
  size_t fitting(const std::byte* address, size_t bytes) const;
  // Calls Status serve(Position) for the blocks of these bytes until one fails. Returns how many
  // bytes are ready, or the error if the first block fails.
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

// Decision about a side that needs a block.
enum class Verdict : uint8_t {
  present,       // it is there already
  take,          // take the block with its contents
  take_cleared,  // take the block, as zeros
  wait,          // wait for the other side, or for a thread that is moving the block
  // Reasons not to serve it:
  other_failed,   // the other side gave up
  behind_window,  // the block was handed over or freed: L or M is too small
  past_capacity,  // the producer is beyond the bytes that the stream was opened for
  past_end,       // the consumer is beyond the end and the zeros behind it
  side_ended,     // this side has finished or failed
  own_wait,       // the thread is the other side as well, and would wait for itself
  unannounced,    // one address: an early load, by a thread that has not called reader()
  unmapped,       // the system refused to map the block
};

// Facts that a message about a refusal states beside the verdict.
struct Refusal {
  Verdict verdict;
  Side side;
  Position position = 0;
  Position head = 0;      // how far the side had come
  Position comeback = 0;  // L or M
  const char* comeback_option = "comeback_blocks";
  Jump jump = {};
  bool handed_over = false;  // behind_window: a store, perhaps by the consumer, which may not store
  uint64_t capacity_bytes = 0;
  uint64_t end_bytes = 0;  // once finished
  int map_errno = 0;
  const char* other_reason = "";  // reason for other_failed
  ErrorCode other_code = ErrorCode::cancelled;
};

// Writes the refusal as a message about the stream `name`. May run on the fault path.
WrittenFailure written(const Refusal& refusal, const char* name) noexcept;

// An eventcount: lets threads, or processes, wait for a state to change. May be used in handlers.
// The other side usually answers within a move or two, so a waiter spins before it sleeps. Thread
// safety: wait() and announce() are called with the mutex held that guards the state; the `_shared`
// ones, for a counter that two processes have mapped, need none. Invariant: a change of the counter
// means only that looking again may be worth it.
class EventCount {
 public:
  // Gives the mutex up until something has changed.
  void wait(Mutex& mutex) noexcept REQUIRES_LOCK(mutex);
  void announce() noexcept;

  // Returns the counter; call it before looking at the state.
  uint32_t now() const noexcept { return count_.load(std::memory_order_seq_cst); }
  // Waits until something has changed since now() was `seen`, or for the time given, since the
  // other process may die. Returns whether something has changed.
  bool wait_shared(uint32_t seen, uint32_t wait_ms_max) noexcept;
  // Called after the state has changed.
  void announce_shared() noexcept;

 private:
  void spin(uint32_t seen) const noexcept;

  uint32_t waiting_ = 0;  // threads in wait(); guarded by the mutex
  std::atomic<uint32_t> count_ = 0;
  std::atomic<uint32_t> sleeping_ = 0;  // too high if a sleeping process was killed
};

}  // namespace penstock::stream
