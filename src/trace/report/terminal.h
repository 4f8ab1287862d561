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

// Returns the short report of a trace: figures, the picture in dots, lines over time as bars, tables
// of the busiest files and processes. It is plain text of whole lines, without escape codes.
std::string terminal_report(const TraceSummary& summary, const TerminalOptions& options = {});

// Returns the short report of a sort: predicted and measured figures, the use of the memory over
// time, the times of buckets, and how full the executor's buckets were.
std::string terminal_report(const SortRun& sort, const TerminalOptions& options = {});

// Returns the advice on a trace, and a table of its calls and their time; nothing of either if the
// trace has none.
std::string terminal_calls(const trace::Conversion& trace, const TerminalOptions& options = {});

// Clamps the width to the range that reports support.
TerminalOptions bounded(TerminalOptions options);

// Returns values as a line of bars, one character each. The largest value has the tallest bar, and
// only 0 is a blank.
std::string sparkline(const std::vector<double>& values, bool unicode);

// Joins neighbours until at most `width` values are left: each is the mean, or the largest, of its
// share of `values`.
enum class Join { mean, largest };
std::vector<double> joined(const std::vector<double>& values, size_t width, Join how);

}  // namespace penstock::report
