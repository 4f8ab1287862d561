#pragma once

// The kinds of logs behind import.h. `head` is the beginning of the log, from which the trace's
// header is made, since it must be known before the first event.

#include <memory>
#include <string_view>

#include "trace/import/log_source.h"

namespace penstock::trace {

std::unique_ptr<EventSource> iolog_source(Lines lines, std::string_view head);
std::unique_ptr<EventSource> strace_source(Lines lines, std::string_view head);
// Returns the header of a log of strace: its command and start, from the first lines.
Header strace_header(std::string_view head);
// Returns whether a text begins like a log of strace.
bool looks_like_strace(std::string_view head);

}  // namespace penstock::trace
