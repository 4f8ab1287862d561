#pragma once

// Sorts done by the Python package: of tables (Parquet, Arrow, CSV), `penstock sort FILE.parquet
// --by ts:desc,id -o FILE`, and of anything on a cluster, `penstock sort --engine ray FILE... -o
// FOLDER`.

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

// Replaces the process by Python, or reports what is missing and returns the exit code.
int sort_by_package(const Parser& parser, const SortWords& words, const PackageWords& package);

}  // namespace penstock::cli
