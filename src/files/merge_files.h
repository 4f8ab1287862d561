#pragma once

// Merges sorted files, any number of them, into one: by the executor, in as few or as many passes
// as the planner finds best for the memory and the device.

#include <optional>

#include "files/options.h"

namespace penstock::files {

struct MergeFilesOptions : FilesOptions {
  bool descending = false;
  bool unique = false;               // of items with equal keys only the first
  std::optional<uint64_t> top = {};  // the first so many items of the output alone
  record::ItemOrder order() const { return record::ItemOrder(format, descending); }
};

// What a merge will do.
struct MergeFilesPlan {
  uint32_t files = 0;  // that hold anything
  uint32_t passes = 0;
  uint64_t input_bytes = 0;  // 0 with pipes: not known
  std::string factors;       // of the passes: "90 x 89"
  uint64_t temp_bytes = 0;   // on disk at once, beside the output, at most
  uint64_t bytes_read = 0;   // in all passes; 0: not known, or only the first items are wanted
  uint64_t bytes_written = 0;
  uint64_t switches = 0;
  double seconds = 0;  // by equation 1 of FilesOptions::device; 0: not predicted
};

struct MergeFilesStats : FilesStats {
  MergeFilesPlan planned;
  uint64_t items = 0;  // of the output
  uint64_t bytes = 0;  // of the output
};

// Errors: as merge_files(), before it begins.
Result<MergeFilesPlan> plan_merge(const MergeFilesOptions& options);

// Stable: items with equal keys come in the order of the files. Of lines the last one of a file may
// lack its newline; it gets one.
//
// Errors: unsorted, with the file and the item; otherwise as sort_files(). After any error the
// output's name is untouched and nothing else is left.
Result<MergeFilesStats> merge_files(const MergeFilesOptions& options);

// The first place where order (or with `unique`, strictness) is broken, if any. For `sort -c`.
struct Disorder {
  std::string path;
  uint64_t item;     // index from 0
  std::string text;  // the item, readable
};
Result<std::optional<Disorder>> find_disorder(const MergeFilesOptions& options);

}  // namespace penstock::files
