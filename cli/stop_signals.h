#pragma once

// How the program answers SIGINT, SIGTERM and SIGHUP while work is under way: a flag is set, the
// work ends in order and cleans up, and then the program dies by that same signal, so that shells
// and scripts see what happened.

#include <atomic>

namespace penstock::cli {

// While it lives, the signals set the flag. A second one of the same kind ends the program at once,
// and so does the first when the work has not ended a few seconds later (it may wait for a pipe).
// A signal that was ignored when the program started (nohup) stays ignored. SIGPIPE and SIGXFSZ are
// ignored meanwhile: a closed pipe and a limit on file sizes are errors of a write, which has
// temporaries to clean up.
//
// Thread safety: one object at a time, made and destroyed by the main thread; the flag may be read
// anywhere.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  const std::atomic<bool>& flag() const;
  int caught() const;  // the signal that set the flag, or 0
};

// Ends the program as if the signal had not been caught. Returns only where the signal is blocked
// or ignored: then `return die_by(signal)` ends it with the number a shell would report.
int die_by(int signal);

}  // namespace penstock::cli
