#pragma once

// Signal masks of threads: of those that the library starts, and of callbacks that they call.

#include <signal.h>

namespace penstock {

// The signals that a thread of the library takes: those that its own instructions raise (a blocked
// fault would end the process without a word), and SIGPIPE where the starting thread takes it. The
// process's other signals are for its own threads. A new thread inherits the mask; so the starting
// thread has it as long as this lives.
class ThreadSignals {
 public:
  ThreadSignals() noexcept;
  ~ThreadSignals();
  ThreadSignals(const ThreadSignals&) = delete;
  ThreadSignals& operator=(const ThreadSignals&) = delete;

  // The mask that callbacks of the caller have in the new thread (CallersSignals).
  sigset_t callers() const noexcept;

 private:
  sigset_t before_;
};

// Around callbacks: as long as it lives, a thread of the library has the signal mask of the thread that
// called the library, so that a program which the callback starts takes signals as it would from there. In
// other threads it does nothing.
class CallersSignals {
 public:
  CallersSignals() noexcept;
  ~CallersSignals();
  CallersSignals(const CallersSignals&) = delete;
  CallersSignals& operator=(const CallersSignals&) = delete;

 private:
  sigset_t before_;
};
// The mask of CallersSignals in this thread; null, where the library has not started it.
const sigset_t* callers_signals() noexcept;
void remember_callers_signals(const sigset_t* mask) noexcept;

}  // namespace penstock
