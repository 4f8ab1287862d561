#pragma once

// Advice to a user, from the figures of a sort.

#include <string>
#include <vector>

#include "trace/report/sort_run.h"

namespace penstock::report {

struct Advice {
  std::string what;  // the action: "Put temporaries on another disk"
  std::string how;   // the option or command for it: "-T DIRECTORY"
  std::string why;   // a sentence with the figures that lead to it
};

// Returns advice, the most important first; none without figures, or if they are good.
std::vector<Advice> advice_on(const SortRun& sort);

}  // namespace penstock::report
