#pragma once

// Merges sorted files, any number of them, into one: by the executor, in as few or as many passes
// as the planner finds best for the memory and the device.

#include "external/file_run.h"

namespace penstock::external {

struct MergeFilesOptions {
  FilesOptions files;
  std::string output = "-";  // "-" is stdout; may name an input
  bool descending = false;
  bool unique = false;  // of items with equal keys only the first
};

struct MergeFilesStats : FilesStats {
  uint32_t files = 0;      // that held anything
  uint64_t bytes = 0;      // of the output
  std::string factors;     // of the passes: "90 x 89"
  double predicted_s = 0;  // by the plan; 0: not predicted
};

// Stable: items with equal keys come in the order of the files. Of lines the last one of a file may
// lack its newline; it gets one.
//
// Errors: unsorted, with the file and the item; otherwise as sort_files(). After any error the
// output's name is untouched and nothing else is left.
Result<MergeFilesStats> merge_files(const MergeFilesOptions& options);

}  // namespace penstock::external
