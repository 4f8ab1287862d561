#pragma once

// A broken invariant stops the program with a message, in release builds too. For what can fail in
// use there is Result.
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
