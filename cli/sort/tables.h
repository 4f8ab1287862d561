#pragma once

// What the Python package sorts: tables (Parquet, Arrow, CSV), `penstock sort FILE.parquet --by ts:desc,id -o FILE`, and anything
// on a cluster, `penstock sort --engine ray FILE... -o FOLDER`.

#include <string>
#include <vector>

#include "cli/common/parser.h"
#include "cli/sort/sort_words.h"

namespace penstock::cli {

struct PackageWords {
  std::vector<std::string> by;  // columns of tables
  std::string engine = "local";
  bool any() const { return !by.empty() || engine != "local"; }
};

// Replaces the program by Python's, or says what is missing.
int sort_by_package(const Parser& parser, const SortWords& words, const PackageWords& package);

}  // namespace penstock::cli
