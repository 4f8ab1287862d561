#pragma once

// Tables (Parquet, Arrow, CSV) are sorted by the Python package: `penstock sort FILE.parquet --by ts:desc,id -o FILE`.

#include <string>
#include <vector>

#include "cli/common/parser.h"
#include "cli/sort/sort_words.h"

namespace penstock::cli {

// Replaces the program by Python's, or says what is missing. Of the options those that tables have may be given.
int sort_tables(const Parser& parser, const SortWords& words, const std::vector<std::string>& by);

}  // namespace penstock::cli
