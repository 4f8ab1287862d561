#pragma once

// Signal masks of threads that the library starts, and of callbacks in them.

#include <signal.h>

namespace penstock {

// Sets the signals of a thread of the library: it receives those that its own instructions raise (a
// blocked fault would end the process without a message), and SIGPIPE if the starting thread
// receives it. The process's other signals are for its own threads. A new thread inherits the mask;
// so the starting thread has it while this object lives.
class ThreadSignals {
 public:
  ThreadSignals() noexcept;
  ~ThreadSignals();
  ThreadSignals(const ThreadSignals&) = delete;
  ThreadSignals& operator=(const ThreadSignals&) = delete;

  // Returns the mask for callbacks of the caller in the new thread (CallersSignals).
  sigset_t callers() const noexcept;

 private:
  sigset_t before_;
};

// Gives a thread of the library, while it lives, the signal mask of the thread that called the
// library: for callbacks. So a program that the callback starts receives signals as it would from
// there. In other threads it does nothing.
class CallersSignals {
 public:
  CallersSignals() noexcept;
  ~CallersSignals();
  CallersSignals(const CallersSignals&) = delete;
  CallersSignals& operator=(const CallersSignals&) = delete;

 private:
  sigset_t before_;
};
// Returns the mask of CallersSignals in this thread; nullptr if the library did not start it.
const sigset_t* callers_signals() noexcept;
void remember_callers_signals(const sigset_t* mask) noexcept;

}  // namespace penstock
