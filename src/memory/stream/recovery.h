#pragma once

// How a stream's fault handler treats an error: the other side of penstock/stream.h.
//
// The handler does not jump out of itself: the registry counts the threads inside a region's
// handler, and the kernel has a signal mask to restore. Instead it changes the interrupted context,
// so that the return from the signal lands in a small function, which then jumps to the recovery
// point. All frames between, the faulting one included, are abandoned (see penstock/stream.h for
// what that skips). An access that faults inside another handler (nested) abandons that handler,
// too: a handler must not use a stream with ErrorPolicy::recover.

#include "memory/stream/error_policy.h"
#include "penstock/stream.h"

namespace penstock::stream {

// An error found on the fault path: no allocation. Its strings must be copied for later use.
struct Failure {
  ErrorCode code = ErrorCode::io;
  const char* attempted = "";
  const char* subject = "";
  int system_errno = 0;

  Error error() const { return {code, attempted, subject, system_errno}; }
};

// A failure that contains its own text. May be written on the fault path.
struct WrittenFailure {
  const char* subject = "";
  ErrorCode code = ErrorCode::io;
  int system_errno = 0;
  char attempted[400];

  explicit WrittenFailure(const char* about = "") : subject(about) {}
  [[gnu::format(printf, 3, 4)]] void write(ErrorCode because, const char* format, ...) noexcept;
  operator Failure() const { return {code, attempted, subject, system_errno}; }
  Error error() const { return Failure(*this).error(); }
};

// Does what `policy` says about `failure`.
//   stop     ends the process with the message (abort, so that a core shows the access).
//   recover  returns true; the thread continues at its recovery point once the handler has returned
//            Outcome::retry. With context == nullptr (not in a handler) it jumps there at once.
//            Without a recovery point: as stop.
//   zeros    returns false: the caller supplies zeros, or drops what was written.
[[nodiscard]] bool fail(ErrorPolicy policy, const Failure& failure, void* context) noexcept;

// Prints the message only.
void report(const Failure& failure, const char* hint = "") noexcept;
// Prints the message and ends the process, for errors that no policy can mend; calls
// set_stopping()'s function if there is one.
[[noreturn]] void stop(const Failure& failure) noexcept;

// A function that replaces abort() when a stream stops the program, for example to exit with its
// own exit code. It may be called in a signal handler, in any thread. Set it before the first
// stream is opened.
using Stopping = void (*)(const Failure&) noexcept;
void set_stopping(Stopping stopping) noexcept;

}  // namespace penstock::stream
