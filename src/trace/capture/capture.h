#pragma once

// Recording what a program asks of files. One interface, two ways behind it, one format:
//
//   ptrace  no rights needed, any program: static ones, JVMs, Go. The program stops at the calls
//           of interest, and at no others, while we look (capture_ptrace.cc).
//   bpf     as root: programs in the kernel write to a ring that we read (capture_bpf.cc).

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "penstock/base.h"
#include "trace/format/format.h"

namespace penstock::trace {

struct CaptureOptions {
  std::string output = "run.trace";
  Backend backend = Backend::unknown;  // unknown: bpf where it can be had, ptrace otherwise
  std::vector<std::string> command;    // the program and its arguments, found as a shell would; or
  int32_t attach = 0;                  // a process that runs
  // Ends the capture of an attached process, which then runs on. Looked at ten times a second.
  const std::atomic<bool>* stop = nullptr;
  // Called once where the program has ended and processes that it left run on.
  std::function<void()> on_left;
  // bpf: what lies between the kernel and us, a power of two; 0: 32 MiB.
  uint64_t ring_bytes = 0;
};

struct Captured {
  Backend backend = Backend::unknown;
  std::string reason;  // why it is not bpf, where the backend was left open
  Totals totals;       // with exit_code: the program's own, or 128 + the signal that ended it
  uint64_t trace_bytes = 0;
  int handed_signal = 0;  // the last SIGTERM or SIGHUP that was handed to the program; 0: none
};

// Runs the program, or attaches to a process, until all its processes have ended, and writes the
// trace. stdin, stdout and stderr, signals and the terminal are the program's own (but where the
// trace goes to stdout, the program's goes to stderr); SIGINT and
// SIGQUIT of the terminal do not end the capture, SIGTERM and SIGHUP are handed to the program.
// Where that has ended, and processes that it left are traced still, SIGINT, SIGTERM and SIGHUP end
// the capture: by bpf they run on untraced; by ptrace, without which they cannot go on, the first
// such signal sends them SIGTERM and the next SIGKILL.
// One capture at a time in a process.
// Errors: not_found or permission (the program, or the process), unsupported, those of writing.
Result<Captured> capture(const CaptureOptions& options);

}  // namespace penstock::trace
