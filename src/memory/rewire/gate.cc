#include "memory/rewire/gate.h"

#include "os/futex.h"

namespace penstock::rewire {

bool Gate::enter() noexcept {
  bool has_waited = false;
  uint32_t state = state_.load(std::memory_order_relaxed);
  while (true) {
    if ((state & closed_bit) != 0) {
      // seq_cst, the partner of close(): it waits for all that have counted themselves.
      if (!has_waited) waiting_.fetch_add(1, std::memory_order_seq_cst);
      has_waited = true;
      os::futex_wait(state_, state);
      state = state_.load(std::memory_order_relaxed);
      continue;
    }
    // acquire, the partner of open(): the visitor sees what was done behind the closed gate.
    if (state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire,
                                     std::memory_order_relaxed))
      break;
  }
  // relaxed: only state_ says who is inside, and nobody sleeps on an old count.
  if (has_waited && waiting_.fetch_sub(1, std::memory_order_relaxed) == 1)
    os::futex_wake_all(waiting_);
  return has_waited;
}

void Gate::leave() noexcept {
  // release, the partner of close(): it sees the visitor's stores.
  if (state_.fetch_sub(1, std::memory_order_release) == (closed_bit | 1))
    os::futex_wake_all(state_);
}

void Gate::close() noexcept {
  while (const uint32_t waiting = waiting_.load(std::memory_order_seq_cst))
    os::futex_wait(waiting_, waiting);
  uint32_t state = state_.fetch_or(closed_bit, std::memory_order_acquire) | closed_bit;
  while (state != closed_bit) {
    os::futex_wait(state_, state);
    state = state_.load(std::memory_order_acquire);
  }
}

void Gate::open() noexcept {
  state_.fetch_and(~closed_bit, std::memory_order_release);
  os::futex_wake_all(state_);
}

}  // namespace penstock::rewire
