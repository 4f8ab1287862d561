#pragma once

// Other people's sorts of text, for the bench text: uutils' sort (a crate, built by cargo in the folder of
// the build when it is first asked for), and for rows of CSV DuckDB and polars (external/csv_rows.py, in
// the virtual environment that tools/setup.sh bench makes).

#include <cstdint>
#include <string>
#include <vector>

namespace penstock::bench {

struct TextRival {
  std::string name;
  std::vector<std::string> words = {};  // the program, and what it is to be told first
  std::string problem = {};             // why it cannot run
};

// It takes the words of GNU sort. `builds`: where it is not built yet, which takes minutes.
TextRival uutils_sort(bool builds);

struct CsvJob {
  std::string input;
  std::string output;
  std::string folder;  // of temporaries
  uint64_t memory_bytes = 0;
  unsigned threads = 0;
};
// By the second column as a number, then by the first, third and fourth: where equal numbers are left to
// the whole row, that is the same.
std::vector<TextRival> csv_rivals(const CsvJob& job);

}  // namespace penstock::bench
