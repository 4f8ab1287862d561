#pragma once

// The two futex calls that are needed, private to the process. Both keep errno and may stand on the
// fault path.

#include <atomic>
#include <cstdint>

namespace penstock::os {

// Sleeps while `word` holds `expected`; may return early.
void futex_wait(const std::atomic<uint32_t>& word, uint32_t expected) noexcept;
void futex_wake_all(const std::atomic<uint32_t>& word) noexcept;

// Tells the core that this is a spin loop.
inline void spin_pause() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

}  // namespace penstock::os
