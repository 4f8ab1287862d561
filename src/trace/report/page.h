#pragma once

// The page: one complete HTML file.
//
// Tables need nothing of the browser, and pictures need the page's own script. Names of files,
// commands and processes are untrusted text. Two walls keep them from acting: they appear as
// escaped text of HTML elements alone, never in a script or in its data, which are numbers; and a
// Content-Security-Policy forbids the network, and every script but the one whose hash it names.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "trace/report/sort_run.h"
#include "trace/report/summary.h"

namespace penstock::report {

// The first bytes of every page.
inline constexpr std::string_view page_beginning = "<!doctype html>\n";

struct PageOptions {
  std::string version;  // the program's version
  // Largest size of the page. Tables of traces are written in full, whatever their size.
  size_t bytes_max = size_t{4'700'000};
};

// REQUIRES: a trace or a sort.
std::string make_page(std::span<const TraceSummary> traces, std::span<const SortRun> sorts,
                      const PageOptions& options);

}  // namespace penstock::report
