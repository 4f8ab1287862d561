#pragma once

// Other sorts of text, for the bench text: uutils' sort (a crate, built by cargo in the build
// folder on first use), and for rows of CSV DuckDB and polars (external/csv_rows.py, in the virtual
// environment that tools/setup.sh bench makes).

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::bench {

struct TextRival {
  std::string name;
  std::vector<std::string> words = {};  // the program and its first arguments
  std::string problem = {};             // the reason why it cannot run
};

// Has the options of GNU sort. `builds`: build it if necessary, which takes minutes.
TextRival uutils_sort(bool builds);

struct CsvJob {
  std::string input;
  std::string output;
  std::string folder;  // for temporaries
  uint64_t memory_bytes = 0;
  unsigned threads = 0;
};
// Sorts by the second column as a number, then by the first, third and fourth: the same as
// comparing whole rows when numbers are equal.
std::vector<TextRival> csv_rivals(const CsvJob& job);

}  // namespace penstock::bench
