#pragma once

// What to do about what the figures of a sort show.

#include <string>
#include <vector>

#include "trace/report/sort_run.h"

namespace penstock::report {

struct Advice {
  std::string what;  // to do: "Put temporaries on another disk"
  std::string how;   // the option for it, or the command: "-T DIRECTORY"
  std::string why;   // a sentence with the figures that say so
};

// The most important first. None where the figures give no reason for any, or where there are none.
std::vector<Advice> advice_on(const SortRun& sort);

}  // namespace penstock::report
