#pragma once

// The kinds of logs behind import.h. `head` is how the log begins: what describes it is taken from
// there, since a header must be known before the first event.

#include <memory>
#include <string_view>

#include "trace/import/log_source.h"

namespace penstock::trace {

std::unique_ptr<EventSource> iolog_source(Lines lines, std::string_view head);
std::unique_ptr<EventSource> strace_source(Lines lines, std::string_view head);
// Whether a text begins as strace's do.
bool looks_like_strace(std::string_view head);

}  // namespace penstock::trace
