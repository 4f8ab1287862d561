#pragma once

// Other people's sorts of data larger than memory, for the bench external-sort: STXXL (a program
// built from external/stxxl_sort.cc where libstxxl-dev is installed), DuckDB and polars
// (external/columns.py, in the virtual environment that tools/setup.sh bench makes).
//
// Each is given the memory, threads and folder that we have, through options of its own. None of
// them promises to stay within the memory, so the peaks stand beside the times. STXXL reads and
// writes the plain file; the others their best format, a Parquet file without compression, made
// before the clock starts.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/harness/child.h"
#include "penstock/base.h"

namespace penstock::bench {

struct RivalJob {
  std::string input;   // of u64
  std::string folder;  // for everything that they write
  uint64_t memory_bytes = 0;
  unsigned threads = 0;
  unsigned seconds_max = 600;
  // Whether a file holds the input's numbers in order.
  std::function<Status(const std::string& path)> verify;
};

struct RivalRun {
  std::string name;             // "STXXL 1.4.1"
  std::string ratio;            // "vs_stxxl_u64"
  std::optional<ChildRun> run;  // of the sort alone, its output verified
  std::string problem;          // why there is none: not installed, killed, too slow, wrong
};

// Leaves nothing behind in the folder.
std::vector<RivalRun> sort_with_rivals(const RivalJob& job);

}  // namespace penstock::bench
