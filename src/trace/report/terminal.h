#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trace/report/sort_run.h"
#include "trace/report/summary.h"

namespace penstock::report {

struct TerminalOptions {
  size_t width = 80;    // columns of the terminal
  bool unicode = true;  // whether it can show more than ASCII
};

// The report's small version: figures, the picture in dots, lines over time as bars, tables of the
// busiest files and processes. Plain text of whole lines: no colours, no escape codes.
std::string terminal_report(const TraceSummary& summary, const TerminalOptions& options = {});

// The same for a sort: predicted against measured, what held the memory over time, bucket by
// bucket, and how full the executor's were.
std::string terminal_report(const SortRun& sort, const TerminalOptions& options = {});

// With a width that reports can have.
TerminalOptions bounded(TerminalOptions options);

// Values as a line of bars, one character each; the largest is the tallest, and only 0 is a blank.
std::string sparkline(const std::vector<double>& values, bool unicode);

// As many values as `width`, or fewer: each the mean, or the largest, of its share of `values`.
enum class Join { mean, largest };
std::vector<double> joined(const std::vector<double>& values, size_t width, Join how);

}  // namespace penstock::report
