#include "base/signal_mask.h"

#include <pthread.h>
#include <signal.h>

namespace penstock {
namespace {

constexpr int own_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};
constinit thread_local const sigset_t* mask_of_callers = nullptr;

}  // namespace

ThreadSignals::ThreadSignals() noexcept {
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before_);
  sigset_t blocked;
  ::sigfillset(&blocked);
  for (const int signal : own_signals) ::sigdelset(&blocked, signal);
  if (::sigismember(&before_, SIGPIPE) == 0) ::sigdelset(&blocked, SIGPIPE);
  ::pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
}

ThreadSignals::~ThreadSignals() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

// Keeps the signals of the thread's own instructions unblocked.
sigset_t ThreadSignals::callers() const noexcept {
  if (callers_signals() != nullptr) return *callers_signals();
  sigset_t mask = before_;
  for (const int signal : own_signals) ::sigdelset(&mask, signal);
  return mask;
}

const sigset_t* callers_signals() noexcept {
  return mask_of_callers;
}

void remember_callers_signals(const sigset_t* mask) noexcept {
  mask_of_callers = mask;
}

CallersSignals::CallersSignals() noexcept {
  if (mask_of_callers != nullptr) ::pthread_sigmask(SIG_SETMASK, mask_of_callers, &before_);
}

CallersSignals::~CallersSignals() {
  if (mask_of_callers != nullptr) ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace penstock
