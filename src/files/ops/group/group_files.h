#pragma once

// Groups the items of files by key and aggregates each group; any number of groups.

#include "files/ops/group/group_table.h"
#include "files/run/file_run.h"

namespace penstock::files {

using penstock::GroupFilesStats;

struct GroupFilesOptions {
  FilesOptions files;
  Aggregates aggregates;
  GroupLinesOptions lines = {};
  bool sorted = false;  // writes results in the order of their keys, otherwise in any order
  // Writes results in the order of the first items of their keys. REQUIRES: `lines.positions`, no
  // aggregated columns, not `sorted`, no `top`.
  bool in_order = false;
  // Writes only so many results with the highest counts, by count, descending, then by key.
  // REQUIRES: a count.
  std::optional<uint64_t> top = {};
  unsigned threads = 1;
  // Items that a thread reads at a time if there are several threads; these need an input and a
  // budget of some hundred bytes each. (A few: for tests.)
  size_t round_items = 4096;
};

// Groups the items of files. GroupLayout::result_format() describes a result. The results of lines
// follow the header of the inputs, those of rows follow a header with the names of their columns.
//
// Errors: unsupported, with the key, if a sum does not fit 64 bits (of lines: 38 digits); corrupt
// if the value of a line is not a number; out_of_memory if an eighth of the memory does not hold
// the `top` results; otherwise as sort_files(). After any error the output's name is untouched and
// nothing else is left.
Result<GroupFilesStats> group_files(const GroupFilesOptions& options);

}  // namespace penstock::files
