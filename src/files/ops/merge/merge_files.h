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
// The items at the beginning of an input.
struct ItemsMeasure {
  uint64_t items = 0;
  uint64_t bytes = 0;

  static constexpr uint64_t bytes_enough = 64 * KiB;  // for a mean
  // Returns the mean bytes of an item; of none, those of a short one.
  double mean_bytes() const {
    return items == 0 ? 32 : static_cast<double>(bytes) / static_cast<double>(items);
  }
};
// Finds the first disorder, if there is one, for `sort -c`. `to_end`: reads all items nevertheless.
// `beginning`: receives the measure of the items up to there, and of enough bytes. REQUIRES: then
// there is one input.
Result<std::optional<Disorder>> find_disorder(const MergeFilesOptions& options, bool to_end = false,
                                              ItemsMeasure* beginning = nullptr);

}  // namespace penstock::files
