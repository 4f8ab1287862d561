#pragma once

// Logs of other programs as traces.
//
//   fio      the files of `fio --write_iolog` and `--read_iolog`, versions 2 and 3
//   strace   the text of `strace -f -ttt -T -yy -o FILE` and of most of its other options
//
// A log is read line by line and becomes the events of penstock/trace.h, so that the conversion, the
// report and the replay work on it. Nothing is invented: missing information (times in version 2,
// sizes of files in strace) stays unknown, and import_*.cc describe the consequences.
//
// A log ends with a newline. A log without one was cut off within its last line: that line is left
// out, and the reader ends with an error (TraceReader::cut_off()), as for a trace. Any other
// invalid line is an error of code `corrupt` with its number.

#include <string>
#include <string_view>

#include "penstock/base.h"
#include "penstock/trace.h"

namespace penstock::trace {

// Finds a kind by its name: "trace", "iolog", "strace". Returns invalid_argument for another name.
Result<LogKind> log_kind_of(std::string_view name);

// Fails for an input that can be read only once: standard input, or a pipe, including a named one, on
// which a second reader would wait.
Status check_readable_twice(const std::string& path);

// Opens text in memory, for tests.
Result<TraceReader> trace_of_text(std::string_view text, LogKind kind = LogKind::detect);

}  // namespace penstock::trace
