#pragma once

// Futex calls, private to the process or for memory that processes share. All keep errno and may
// stand on the fault path.

#include <atomic>
#include <cstdint>

namespace penstock::os {

// Sleeps while `word` is `expected`; may return early.
void futex_wait(const std::atomic<uint32_t>& word, uint32_t expected) noexcept;
void futex_wake_all(const std::atomic<uint32_t>& word) noexcept;

// For a word that several processes map; the other one may die, so waits have a limit.
void futex_wait_shared(const std::atomic<uint32_t>& word, uint32_t expected,
                       uint32_t wait_ms_max) noexcept;
void futex_wake_all_shared(const std::atomic<uint32_t>& word) noexcept;

// Tells the core that this is a spin loop.
inline void spin_pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

}  // namespace penstock::os
