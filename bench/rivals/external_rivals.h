#pragma once

// Other sorts of data larger than memory, for the bench external-sort: STXXL (a program built from
// external/stxxl_sort.cc if libstxxl-dev is installed), DuckDB and polars (external/columns.py, in
// the virtual environment that tools/setup.sh bench makes).
//
// Each gets our memory, threads and folder, through its own options. None of them promises to stay
// within the memory, so the peaks are reported with the times. STXXL reads and writes the plain
// file; the others their best format, a Parquet file without compression, made before the clock
// starts.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/harness/child.h"
#include "penstock/base.h"

namespace penstock::bench {

struct RivalJob {
  std::string input;   // path of a file of u64
  std::string folder;  // for all of their files
  uint64_t memory_bytes = 0;
  unsigned threads = 0;
  unsigned seconds_max = 600;
  // Whether a file holds the input's numbers in order.
  std::function<Status(const std::string& path)> verify;
};

struct RivalRun {
  std::string name;             // "STXXL 1.4.1"
  std::string ratio;            // "vs_stxxl_u64"
  std::optional<ChildRun> run;  // the sort's run, with its output verified
  std::string problem;          // the reason for no run: not installed, killed, too slow, wrong
};

// Runs the rivals, and removes their files from the folder.
std::vector<RivalRun> sort_with_rivals(const RivalJob& job);

}  // namespace penstock::bench
