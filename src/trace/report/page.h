#pragma once

// The page: one HTML file with all that it needs in it.
//
// What the page asks of its reader's browser: nothing for the tables, and a script of our own for
// the pictures. It asks nobody else for anything: a Content-Security-Policy forbids the network,
// and every script but the one whose hash it names. That is the second wall; the first is that
// names of files, commands and processes are strangers' text, appear as text of HTML elements
// alone, escaped, and never in a script or in its data, which are numbers.

#include <cstddef>
#include <span>
#include <string>

#include "trace/report/sort_run.h"
#include "trace/report/summary.h"

namespace penstock::report {

struct PageOptions {
  std::string version;  // of the program
  // Of the page. Tables of traces have their room in any case.
  size_t bytes_max = size_t{4'700'000};
};

// REQUIRES: a trace or a sort.
std::string make_page(std::span<const TraceSummary> traces, std::span<const SortRun> sorts,
                      const PageOptions& options);

}  // namespace penstock::report
