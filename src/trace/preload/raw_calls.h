#pragma once

// System calls of the library itself, made here and nowhere else: the ones in libc's code are what
// it watches.

#include <asm/unistd.h>

#include <cstdint>

namespace penstock::trace::preload {

// The answer of the kernel: a negative errno where it failed.
inline int64_t raw_call(uint64_t number, uint64_t a = 0, uint64_t b = 0, uint64_t c = 0,
                        uint64_t d = 0, uint64_t e = 0, uint64_t f = 0) {
  register uint64_t r10 asm("r10") = d;
  register uint64_t r8 asm("r8") = e;
  register uint64_t r9 asm("r9") = f;
  int64_t result;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
}

inline uint64_t address_of(const volatile void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

}  // namespace penstock::trace::preload
