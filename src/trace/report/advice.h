#pragma once

// Advice to a user, from the figures of a sort or of a trace.

#include <string>
#include <vector>

#include "penstock/trace.h"
#include "trace/report/sort_run.h"

namespace penstock::report {

struct Advice {
  std::string what;  // the action: "Put temporaries on another disk"
  std::string how;   // the option or command for it: "-T DIRECTORY"; may be empty
  std::string why;   // sentences with the figures that lead to it
};

// Shortest sort that gets advice. In a shorter one, starting and ending take too large a share.
inline constexpr double judged_seconds_min = 1;

// Returns advice, the most important first; none without figures, or if they are good.
std::vector<Advice> advice_on(const SortRun& sort);
// Likewise for the whole of a trace. Needs the latencies of its calls.
std::vector<Advice> advice_on(const trace::Conversion& trace);

// Returns a sentence with the names that were looked for most often and not found; empty if there are
// none.
std::string failed_names_text(const trace::Conversion& trace);

// Returns whether a trace has the times of its calls.
inline bool has_times(const trace::Conversion& trace) {
  return trace.busy_ns > 0 && trace.whole_ns > 0;
}

}  // namespace penstock::report
