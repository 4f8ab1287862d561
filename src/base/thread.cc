#include "base/thread.h"

#include <pthread.h>
#include <signal.h>

namespace penstock {

ThreadSignals::ThreadSignals() noexcept {
  ::pthread_sigmask(SIG_SETMASK, nullptr, &before_);
  sigset_t blocked;
  ::sigfillset(&blocked);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS})
    ::sigdelset(&blocked, signal);
  if (::sigismember(&before_, SIGPIPE) == 0) ::sigdelset(&blocked, SIGPIPE);
  ::pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
}

ThreadSignals::~ThreadSignals() {
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

}  // namespace penstock
