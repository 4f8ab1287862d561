#include "memory/stream/sides.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>
#include <utility>

#include "base/bits.h"
#include "base/check.h"
#include "memory/pool/pool.h"
#include "os/futex.h"

namespace penstock::stream {

Status StreamGeometry::check(const std::string& name) const {
  auto refuse = [&](std::string hint) {
    return failure(ErrorCode::invalid_argument, "open a stream", name, std::move(hint));
  };
  if (Status valid = pool::check_block_bytes(block_bytes, "open a stream", name); !valid)
    return valid;
  if (bytes == 0) return refuse("bytes: the longest that the stream may become, at least 1");
  // A process has 128 TiB of addresses here; the reservation finds out how much of that is free.
  if (bytes > (uint64_t{1} << 47)) return refuse("bytes: at most 128 TiB of address space");
  const uint64_t window =
      uint64_t{1} + read_ahead_blocks + producer_comeback_blocks + consumer_comeback_blocks;
  if (window > (1u << 20)) return refuse("read_ahead and comeback blocks: about a million at most");
  return {};
}

Position StreamGeometry::blocks() const {
  return static_cast<Position>(ceil_div(bytes, block_bytes));
}

uint32_t StreamGeometry::live_blocks() const {
  const Position window =
      Position{1} + read_ahead_blocks + producer_comeback_blocks + consumer_comeback_blocks;
  return static_cast<uint32_t>(std::min(window, blocks() + 1));
}

Result<Window::Blocks> Window::blocks(const void* address, size_t bytes,
                                      const std::string& name) const {
  const auto begin = static_cast<const std::byte*>(address);
  if (!range.contains(address) || bytes > static_cast<size_t>(range.end() - begin)) {
    return failure(ErrorCode::invalid_argument, fmt::format("prepare memory of {}", kind), name,
                   "a piece of its own pointer");
  }
  const Blocks blocks = blocks_of(address, bytes);
  if (const Position span = blocks.last - blocks.first; span > comeback) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("prepare {} blocks of {} at once", span + 1, kind), name,
                   fmt::format("{} = {}", comeback_option, span));
  }
  return blocks;
}

Window::Blocks Window::blocks_of(const void* address, size_t bytes) const {
  const auto offset = static_cast<size_t>(static_cast<const std::byte*>(address) - range.begin());
  return {static_cast<Position>(offset / block_bytes),
          static_cast<Position>((offset + bytes - 1) / block_bytes)};
}

size_t Window::fitting(const std::byte* address, size_t bytes) const {
  const auto offset = static_cast<size_t>(address - range.begin());
  const size_t window_end =
      (offset / block_bytes + 1 + static_cast<size_t>(comeback)) * block_bytes;
  return std::min({bytes, window_end - offset, static_cast<size_t>(range.bytes()) - offset});
}

WrittenFailure written(const Refusal& refusal, const char* name) noexcept {
  WrittenFailure failure(name);
  auto number = [](auto value) { return static_cast<long long>(value); };
  auto print = [&](ErrorCode code, const char* format, auto... values) {
    char why[sizeof failure.attempted];
    std::snprintf(why, sizeof why, format, values...);
    failure.write(code, "serve the %s in block %lld: %s", name_of(refusal.side),
                  number(refusal.position), why);
    return failure;
  };
  char reason[200];
  switch (refusal.verdict) {
    case Verdict::other_failed:
      return print(refusal.other_code, "the %s gave up: %s", name_of(other(refusal.side)),
                   refusal.other_reason);
    case Verdict::behind_window: {
      const Position wanted = refusal.head - refusal.position;
      // A side that goes back over blocks that it skipped usually goes as far as it came from.
      const Position origin = std::max<Position>(refusal.jump.from, 0);
      char whole[80] = "";
      if (refusal.jump.skipped(refusal.position))
        std::snprintf(whole, sizeof whole, ", %lld to go back to block %lld, where it jumped",
                      number(refusal.head - origin), number(origin));
      return print(
          ErrorCode::invalid_argument,
          "it was given away when the %s came to block %lld (%s is %lld, at least %lld "
          "needed%s%s)%s",
          name_of(refusal.side), number(refusal.head), refusal.comeback_option,
          number(refusal.comeback), number(wanted), whole,
          refusal.handed_over ? "; a consumer stores with strict = false alone" : "",
          wanted > 1 ? "; was it a large memcpy? penstock::copy goes from front to back" : "");
    }
    case Verdict::past_capacity:
      return print(ErrorCode::invalid_argument, "the stream was opened for %lld bytes",
                   number(refusal.capacity_bytes));
    case Verdict::past_end:
      return print(ErrorCode::invalid_argument, "the stream ended at %lld bytes",
                   number(refusal.end_bytes));
    case Verdict::side_ended:
      return print(ErrorCode::invalid_argument, "it said that it was done, by %s",
                   refusal.side == Side::producer ? "finish() or fail()" : "fail() or cancel()");
    case Verdict::unannounced:
      return print(ErrorCode::invalid_argument, "nothing is complete yet (%s)",
                   "a consumer calls reader() first, a producer stores before it loads");
    case Verdict::own_wait:
      return print(
          ErrorCode::invalid_argument,
          "its thread is the other side as well, and would wait for itself%s",
          refusal.side == Side::consumer ? " (a producer stores to a block before it loads)" : "");
    case Verdict::unmapped:
      pool::write_reason(refusal.map_errno, reason, sizeof reason);
      return print(code_of_errno(refusal.map_errno), "the system refused to map the block: %s",
                   reason);
    case Verdict::present:
    case Verdict::take:
    case Verdict::take_cleared:
    case Verdict::wait:
      break;
  }
  PENSTOCK_CHECK(false, "a block that could be served was refused");
}

namespace {

// Sleeping and waking costs more than the other side's usual time. On one processor nobody can
// answer while this thread spins.
const int spins_max = std::thread::hardware_concurrency() > 1 ? 1000 : 0;

}  // namespace

// relaxed: now() makes the decision.
void EventCount::spin(uint32_t seen) const noexcept {
  for (int spins = 0; spins < spins_max && count_.load(std::memory_order_relaxed) == seen;
       ++spins) {
    os::spin_pause();
  }
}

// seq_cst, the partner of announce(): either it sees this sleeper, or the futex call sees the
// change.
void EventCount::wait(Mutex& mutex) noexcept {
  const uint32_t seen = count_.load(std::memory_order_relaxed);  // changes only under the mutex
  ++waiting_;
  mutex.unlock();
  spin(seen);
  sleeping_.fetch_add(1, std::memory_order_seq_cst);
  while (now() == seen) os::futex_wait(count_, seen);
  sleeping_.fetch_sub(1, std::memory_order_relaxed);
  mutex.lock();
  --waiting_;
}

bool EventCount::wait_shared(uint32_t seen, uint32_t wait_ms_max) noexcept {
  spin(seen);
  sleeping_.fetch_add(1, std::memory_order_seq_cst);
  if (now() == seen) os::futex_wait_shared(count_, seen, wait_ms_max);
  sleeping_.fetch_sub(1, std::memory_order_relaxed);
  return now() != seen;
}

void EventCount::announce() noexcept {
  if (waiting_ == 0) return;
  count_.fetch_add(1, std::memory_order_seq_cst);
  if (sleeping_.load(std::memory_order_seq_cst) != 0) os::futex_wake_all(count_);
}

void EventCount::announce_shared() noexcept {
  count_.fetch_add(1, std::memory_order_seq_cst);
  if (sleeping_.load(std::memory_order_seq_cst) != 0) os::futex_wake_all_shared(count_);
}

}  // namespace penstock::stream
