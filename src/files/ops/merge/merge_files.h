#pragma once

// Merges any number of sorted files into one, in the number of passes that the planner finds best
// for the memory and the device.

#include <optional>

#include "files/run/options.h"

namespace penstock::files {

struct MergeFilesOptions : FilesOptions {
  bool unique = false;               // keeps only the first of items with equal keys
  std::optional<uint64_t> top = {};  // keeps only the first so many items of the output
};

using penstock::MergeFilesPlan;
using penstock::MergeFilesStats;

// Plans a merge. Errors: those of merge_files() before it begins.
Result<MergeFilesPlan> plan_merge(const MergeFilesOptions& options);

// Merges; stable: items with equal keys come in the order of the files. The last line of a file may
// lack its newline; it gets one.
//
// Errors: unsorted, with the file and the item; otherwise as sort_files(). After any error the
// output's name is untouched and nothing else is left.
Result<MergeFilesStats> merge_files(const MergeFilesOptions& options);

// The first item that breaks the order (or with `unique`, the strict order).
struct Disorder {
  std::string path;
  items::Place place;
  std::string text;            // its printable key
  std::string item_text = {};  // the whole item, without its line end
};
// Finds the first disorder, if there is one, for `sort -c`.
Result<std::optional<Disorder>> find_disorder(const MergeFilesOptions& options);

}  // namespace penstock::files
