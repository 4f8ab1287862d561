#pragma once

// Merges sorted files, any number of them, into one: by the executor, in as few or as many passes
// as the planner finds best for the memory and the device.

#include <optional>

#include "files/run/options.h"

namespace penstock::files {

struct MergeFilesOptions : FilesOptions {
  bool unique = false;               // keeps only the first of items with equal keys
  std::optional<uint64_t> top = {};  // keeps only the first so many items of the output
};

using penstock::MergeFilesPlan;
using penstock::MergeFilesStats;

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
  items::Place place;
  std::string text;            // its key, readable
  std::string item_text = {};  // all of it, without a line's end
};
Result<std::optional<Disorder>> find_disorder(const MergeFilesOptions& options);

}  // namespace penstock::files
