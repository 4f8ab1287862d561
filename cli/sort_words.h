#pragma once

// The words of a sort on the command line: what penstock sort takes, and penstock plan with it.

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/format_options.h"
#include "external/external_sort.h"

namespace penstock::cli {

struct SortWords {
  std::vector<std::string> inputs;
  std::string output = "-";
  FormatOptions format;
  std::string memory;
  std::vector<std::string> temp_directories;
  unsigned threads;  // the cores, at most 8
  bool descending = false;
  bool unique = false;
  bool stable = false;
  bool merge_only = false;
  std::string pool = "automatic";

  SortWords();
};

// `words` must outlive the parsing.
void add_sort_words(CLI::App& app, SortWords& words);
extern const char* const sort_words_footer;

// The words made options, or what is wrong with them.
Result<external::SortOptions> sort_options(const SortWords& words);
// -S alone.
Result<uint64_t> memory_bytes_of(const SortWords& words);

}  // namespace penstock::cli
