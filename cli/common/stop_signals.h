#pragma once

// The handling of SIGINT, SIGTERM and SIGHUP during work: the signal sets a flag, the work ends in
// order and cleans up, and then the program prints a message and dies by that same signal, so that
// shells and scripts see what happened.

#include <atomic>
#include <string>

namespace penstock::cli {

struct StopOptions {
  std::string command;  // "sort"
  std::string outcome;  // result of a stopped run: "no output was written"
  // Result of a run that neither ended in order nor waited for one of the streams below, so that the
  // program ended at once; empty: as `outcome`.
  std::string outcome_at_once;
  // The program's streams that the work may wait for.
  bool reads_stdin = false;
  bool writes_stdout = false;
  // The work may wait for something else, such as a named pipe.
  bool may_wait = false;
};

// During its lifetime, the signals set the flag. A second signal of the same kind ends the program at
// once. The first one also ends it, with the same message: after half a second if the work waits for
// a silent stdin or an stdout that nobody reads, or `may_wait` is set; otherwise after five seconds.
// A signal that was ignored when the program started (nohup) stays ignored. SIGPIPE does nothing
// meanwhile: a closed pipe is an error of a write, and temporaries are cleaned up. (It is caught, not
// ignored: programs that are started meanwhile must not inherit that.)
//
// Thread safety: one object at a time, constructed and destroyed by the main thread; the flag may be
// read anywhere.
class StopSignals {
 public:
  explicit StopSignals(const StopOptions& options);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  const std::atomic<bool>& flag() const;
  int caught() const;  // the signal that set the flag, or 0
  // Ends work that was stopped by the flag: prints that it was stopped, and dies by the signal.
  // REQUIRES: caught() is not 0.
  int die() const { return die(caught()); }
  // Does the same for one of the three signals that arrived in another way.
  int die(int signal) const;
};

// Makes a limit on file sizes (SIGXFSZ) an error of the write, for all commands.
void take_file_limits_as_errors();

// Ends the program as if the signal had not been caught. Returns only if the signal is blocked or
// ignored: then `return die_by(signal)` ends it with the number a shell would report.
int die_by(int signal);

}  // namespace penstock::cli
