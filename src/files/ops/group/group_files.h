#pragma once

// Groups the items of files by key, and sums up each group; any number of groups.

#include "files/ops/group/group_table.h"
#include "files/run/file_run.h"

namespace penstock::files {

using penstock::GroupFilesStats;

struct GroupFilesOptions {
  FilesOptions files;
  Aggregates aggregates;
  GroupLinesOptions lines = {};
  bool sorted = false;  // by key; otherwise the results come in any order
  // The results with the highest counts alone, so many at most, by count, descending; those of equal
  // counts by key. With a count, and not `sorted`.
  std::optional<uint64_t> top = {};
};

// Groups the items of files. GroupLayout::result_format() describes a result. The header of the inputs stands in front of the
// results of lines, and a header that names their columns in front of those of rows.
//
// Errors: unsupported with the key, where a sum does not fit 64 bits (of lines: 38 digits); corrupt, where the value of
// a line is no number; out_of_memory where an eighth of the memory does not hold the `top` results; otherwise as
// sort_files().
// After any error the output's name is untouched and nothing else is left.
Result<GroupFilesStats> group_files(const GroupFilesOptions& options);

}  // namespace penstock::files
