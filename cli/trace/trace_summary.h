#pragma once

#include <cstdio>
#include <string>

#include "penstock/trace.h"

namespace penstock::cli {

// Returns whether the locale is UTF-8.
bool terminal_has_unicode();

// Returns a histogram of runs: "runs from these lengths up: 1.00 MiB: 12, 2.00 MiB: 7"; empty without
// runs.
std::string runs_text(const trace::RunHistogram& runs);

// Prints some twenty lines for people: advice, times of calls, files, requests, bytes, seeks, runs,
// the busiest files, and counts of unseen calls.
void print_summary(std::FILE* to, const trace::Conversion& conversion);

}  // namespace penstock::cli
