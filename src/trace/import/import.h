#pragma once

// Logs of other programs as traces.
//
//   fio      what `fio --write_iolog` leaves and `--read_iolog` takes, versions 2 and 3
//   strace   the text of `strace -f -ttt -T -yy -o FILE` and of most of its other options
//
// A log is read line by line and told as the events of format.h, so that all that takes a trace
// takes it: the conversion, the report, the replay. Nothing is invented on the way: what a log does
// not tell (times of a version 2, sizes of files in strace) stays unknown, and import_*.cc say what
// follows from that.
//
// A log ends with a newline. One that does not was cut off within its last line: that line is left
// out, and the reader ends with the error that says so (TraceReader::cut_off()), as it does for a
// trace of ours. Any other line that cannot be is an error of code `corrupt` with its number.

#include <string>
#include <string_view>

#include "penstock/base.h"
#include "penstock/trace.h"

namespace penstock::trace {

// "trace", "iolog", "strace"; invalid_argument for another.
Result<LogKind> log_kind_of(std::string_view name);

// Fails on what can be read but once: standard input, or a pipe, also one with a name, which would
// keep the second reader waiting.
Status check_readable_twice(const std::string& path);

// The same of text in memory, for tests.
Result<TraceReader> trace_of_text(std::string_view text, LogKind kind = LogKind::detect);

}  // namespace penstock::trace
