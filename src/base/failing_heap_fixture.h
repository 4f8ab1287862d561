#pragma once

// An allocator that fails on request. One file of a test program includes this: it defines operator
// new and operator delete. The thread sanitizer defines these itself; then allocations do not fail.

#include <cstdint>
#include <cstdlib>
#include <new>

#if defined(__SANITIZE_THREAD__)
#define PENSTOCK_HEAP_OF_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PENSTOCK_HEAP_OF_SANITIZER
#endif
#endif

namespace penstock {

#ifdef PENSTOCK_HEAP_OF_SANITIZER
inline constexpr bool heap_can_fail = false;
#else
inline constexpr bool heap_can_fail = true;
#endif

// Allocations of this thread that succeed before one fails. Negative: none fails.
inline thread_local int64_t allocations_left = -1;

// Makes one allocation of this thread fail while it lives: the first after `allocations` of them.
class FailingAllocation {
 public:
  explicit FailingAllocation(int64_t allocations = 0) { allocations_left = allocations; }
  ~FailingAllocation() { allocations_left = -1; }
  FailingAllocation(const FailingAllocation&) = delete;
  FailingAllocation& operator=(const FailingAllocation&) = delete;

  bool failed() const { return allocations_left < 0; }
};

}  // namespace penstock

#ifndef PENSTOCK_HEAP_OF_SANITIZER
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  const bool fails = penstock::allocations_left >= 0 && penstock::allocations_left-- == 0;
  return fails ? nullptr : std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new(size_t bytes) {
  void* const memory = operator new(bytes, std::nothrow);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// (gcc 12 mistakes free() for another allocator's if it is inlined into a caller.)
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
#endif
