#pragma once

// Stops the program with a message when an invariant is broken, in release builds too. Failures in
// normal use are reported by Result.
//
// CHECK may stand on the fault path: the message is made on the stack and written with write(2).

namespace penstock {

[[noreturn]] void check_failed(const char* condition, const char* file, int line,
                               const char* why) noexcept;

}  // namespace penstock

#define PENSTOCK_CHECK(condition, why)                               \
  do {                                                               \
    if (!(condition)) [[unlikely]]                                   \
      ::penstock::check_failed(#condition, __FILE__, __LINE__, why); \
  } while (false)
