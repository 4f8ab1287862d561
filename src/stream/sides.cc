#include "stream/sides.h"

#include <cstdio>
#include <cstring>
#include <thread>

#include "base/check.h"
#include "os/futex.h"

namespace penstock::stream {

ErrorCode write_refusal(const Refusal& refusal, char* text, size_t text_bytes) noexcept {
  auto number = [](auto value) { return static_cast<long long>(value); };
  auto print = [&](const char* format, auto... values) {
    const int length =
        std::snprintf(text, text_bytes, "serve the %s in block %lld: ", name_of(refusal.side),
                      number(refusal.position));
    std::snprintf(text + length, text_bytes - static_cast<size_t>(length), format, values...);
  };
  const char* const side = name_of(refusal.side);
  switch (refusal.verdict) {
    case Verdict::other_failed:
      print("the %s gave up: %s", name_of(other(refusal.side)), refusal.other_reason);
      return refusal.other_code;
    case Verdict::behind_window:
      print(
          "it was given away when the %s came to block %lld (%s_comeback_blocks is %lld, %lld "
          "would do)",
          side, number(refusal.head), side, number(refusal.comeback),
          number(refusal.head - refusal.position));
      return ErrorCode::invalid_argument;
    case Verdict::past_capacity:
      print("the stream was opened for %lld bytes", number(refusal.capacity_bytes));
      return ErrorCode::invalid_argument;
    case Verdict::past_end:
      print("the stream ended at %lld bytes", number(refusal.end_bytes));
      return ErrorCode::invalid_argument;
    case Verdict::side_ended:
      print("it said that it was done, by %s",
            refusal.side == Side::producer ? "finish() or fail()" : "fail() or cancel()");
      return ErrorCode::invalid_argument;
    case Verdict::unmapped:
      print(
          "the system refused to map the block: %s (try larger blocks, or a larger "
          "vm.max_map_count)",
          strerrordesc_np(refusal.map_errno));
      return code_of_errno(refusal.map_errno);
    case Verdict::present:
    case Verdict::take:
    case Verdict::take_cleared:
    case Verdict::wait:
    case Verdict::wait_for_slot:
      break;
  }
  PENSTOCK_CHECK(false, "a block that could be served was refused");
}

namespace {

// Sleeping and waking costs more than the other side usually takes. On one processor nobody can
// answer while we spin.
const int spins_max = std::thread::hardware_concurrency() > 1 ? 1000 : 0;

}  // namespace

void Changes::wait(Mutex& mutex) noexcept {
  const uint32_t seen = count_.load(std::memory_order_relaxed);  // changes only under the mutex
  ++waiting_;
  mutex.unlock();
  for (int spins = 0; spins < spins_max && count_.load(std::memory_order_acquire) == seen;
       ++spins) {
    os::spin_pause();
  }
  // seq_cst, the partner of announce(): either it sees this sleeper, or the futex call sees the
  // change.
  sleeping_.fetch_add(1, std::memory_order_seq_cst);
  while (count_.load(std::memory_order_seq_cst) == seen) os::futex_wait(count_, seen);
  sleeping_.fetch_sub(1, std::memory_order_relaxed);
  mutex.lock();
  --waiting_;
}

void Changes::announce() noexcept {
  if (waiting_ == 0) return;
  count_.fetch_add(1, std::memory_order_seq_cst);
  if (sleeping_.load(std::memory_order_seq_cst) != 0) os::futex_wake_all(count_);
}

}  // namespace penstock::stream
