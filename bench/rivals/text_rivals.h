#pragma once

// Other programs for text and tables, for the benches text and csv: uutils' sort and xan (crates,
// built by cargo in the build folder on first use), and DuckDB and polars (external/tables.py, in
// the virtual environment that tools/setup.sh bench makes).

#include <cstdint>
#include <string>
#include <vector>

#include "bench/harness/text_race.h"

namespace penstock::bench {

// Programs without their arguments. `builds`: build it if necessary, which takes minutes. uutils'
// sort has the options of GNU sort.
Contender uutils_sort(bool builds);
Contender xan(bool builds);

struct TableJob {
  std::string word;  // a job of external/tables.py
  std::string input;
  std::string other_input;
  std::string output;
  std::string folder;  // for temporaries
  uint64_t memory_bytes = 0;
  unsigned threads = 0;
};
// DuckDB and polars, with the memory as their limit and without one.
std::vector<Contender> table_rivals(const TableJob& job);

}  // namespace penstock::bench
