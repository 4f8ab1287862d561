#pragma once

// How the program answers SIGINT, SIGTERM and SIGHUP while work is under way: a flag is set, the
// work ends in order and cleans up, and then the program says so and dies by that same signal, so
// that shells and scripts see what happened.

#include <atomic>
#include <string>

namespace penstock::cli {

struct StopOptions {
  std::string command;  // "sort"
  std::string outcome;  // what is left of a stopped run: "no output was written"
  // The same where the work neither ended in order nor waited for one of the streams below, and the
  // program ended at once; empty: no difference.
  std::string outcome_at_once;
  // Which of the program's streams the work may wait for.
  bool reads_stdin = false;
  bool writes_stdout = false;
  // It may wait for something else, such as a pipe with a name.
  bool may_wait = false;
};

// While it lives, the signals set the flag. A second one of the same kind ends the program at once.
// So does the first, with the same message, when the work has not ended half a second later because
// it may wait, or does so for a silent stdin or an stdout that nobody reads; or not some seconds
// later whatever it does. A signal that was ignored when the program started (nohup) stays ignored. SIGPIPE does nothing
// meanwhile: a closed pipe is an error of a write, which has temporaries to clean up. (It is caught and not ignored:
// programs that are started meanwhile must not inherit that.)
//
// Thread safety: one object at a time, made and destroyed by the main thread; the flag may be read
// anywhere.
class StopSignals {
 public:
  explicit StopSignals(const StopOptions& options);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  const std::atomic<bool>& flag() const;
  int caught() const;  // the signal that set the flag, or 0
  // For work that ended because of the flag: tells that it was stopped, and dies by the signal.
  // REQUIRES: caught() is not 0.
  int die() const { return die(caught()); }
  // Likewise for one of the three signals that came by another way.
  int die(int signal) const;
};

// From here on a limit on the sizes of files (SIGXFSZ) is an error of a write, of any command.
void take_file_limits_as_errors();

// Ends the program as if the signal had not been caught. Returns only where the signal is blocked
// or ignored: then `return die_by(signal)` ends it with the number a shell would report.
int die_by(int signal);

}  // namespace penstock::cli
