#include "memory/stream/recovery.h"

#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/bits.h"
#include "base/check.h"
#include "memory/fault/registry.h"

namespace penstock {

namespace {

// initial-exec: the handler reads it, and a library loaded at run time must not allocate it lazily
// there.
[[gnu::tls_model("initial-exec")]] constinit thread_local internal::RecoveryFrame* innermost =
    nullptr;

void copy_text(char* to, size_t to_bytes, const char* from) noexcept {
  size_t length = std::min(std::strlen(from), to_bytes - 1);
  std::memcpy(to, from, length);
  to[length] = 0;
}

// Target of the changed context: the interrupted thread continues here, as if the faulting
// instruction had called it.
[[noreturn]] void land() noexcept {
  siglongjmp(innermost->jump, 1);
}

void redirect_to_land(void* context) noexcept {
  auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  constexpr greg_t red_zone_bytes = 128;
  constexpr greg_t direction_flag = 0x400;
  greg_t* registers = machine.gregs;
  auto stack = static_cast<uint64_t>(registers[REG_RSP] - red_zone_bytes);
  registers[REG_RSP] = static_cast<greg_t>(round_down(stack, 16) - sizeof(void*));
  registers[REG_RIP] = reinterpret_cast<greg_t>(&land);
  registers[REG_EFL] &= ~direction_flag;  // the ABI has it clear on entry of a function
#elif defined(__aarch64__)
  machine.sp = round_down(static_cast<uint64_t>(machine.sp), 16);
  machine.pc = reinterpret_cast<uint64_t>(&land);
#else
#error "recovery.cc: how a context is redirected on this machine"
#endif
}

}  // namespace

namespace internal {

RecoveryFrame::RecoveryFrame() noexcept : outer(innermost) {
  fault::unblock_faults();  // the jump back restores this mask
  innermost = this;
}
RecoveryFrame::~RecoveryFrame() noexcept {
  innermost = outer;
}

Error RecoveryFrame::error() const {
  return Error{code, attempted, subject, system_errno};
}

}  // namespace internal

namespace stream {

namespace {
Stopping stopping_of_program = nullptr;  // set before any stream is opened
}

void set_stopping(Stopping stopping) noexcept {
  stopping_of_program = stopping;
}

void WrittenFailure::write(ErrorCode because, const char* format, ...) noexcept {
  code = because;
  va_list values;
  va_start(values, format);
  std::vsnprintf(attempted, sizeof attempted, format, values);
  va_end(values);
}

void report(const Failure& failure, const char* hint) noexcept {
  char text[768];
  const char* reason = failure.system_errno != 0 ? strerrordesc_np(failure.system_errno) : nullptr;
  int length = std::snprintf(text, sizeof text, "penstock: %s: cannot %s%s%s\n%s", failure.subject,
                             failure.attempted, reason ? ": " : "", reason ? reason : "", hint);
  if (length > 0) {
    size_t bytes = std::min(static_cast<size_t>(length), sizeof text - 1);
    [[maybe_unused]] auto written = ::write(STDERR_FILENO, text, bytes);
  }
}

void stop(const Failure& failure) noexcept {
  if (stopping_of_program != nullptr) stopping_of_program(failure);
  report(failure,
         "  (the error met a plain pointer; with ErrorPolicy::recover the program can go on)\n");
  std::abort();
}

bool fail(ErrorPolicy policy, const Failure& failure, void* context) noexcept {
  if (policy == ErrorPolicy::zeros) return false;
  if (policy == ErrorPolicy::stop || innermost == nullptr) stop(failure);
  innermost->code = failure.code;
  innermost->system_errno = failure.system_errno;
  copy_text(innermost->attempted, sizeof innermost->attempted, failure.attempted);
  copy_text(innermost->subject, sizeof innermost->subject, failure.subject);
  if (context == nullptr) land();
  redirect_to_land(context);
  return true;
}

}  // namespace stream

}  // namespace penstock
